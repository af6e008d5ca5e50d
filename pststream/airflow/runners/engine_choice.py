"""Choose where a job runs, before it is submitted: as a process of the task, or on Spark by spark-submit."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pststream.base import names
from pststream.base.errors import PstError

LOCAL = re.compile(r"://local(\[.*\])?$")
VARIABLE, FILE = "PSTSTREAM_ENGINE", "pststream.toml"


def home_of(arguments: Sequence[str]) -> str:
    """Return the home that a job with these arguments works on."""
    homes = [argument.removeprefix("--home=") for argument in arguments if argument.startswith("--home=")]
    return next(filter(None, homes), os.environ.get("PSTSTREAM_HOME", "./pststream-home"))


def landing_of(arguments: Sequence[str]) -> str:
    """Return the landing folder that a job with these arguments reads."""
    landings = [argument.removeprefix("--landing=") for argument in arguments if argument.startswith("--landing=")]
    named = next(filter(None, landings), os.environ.get("PSTSTREAM_LANDING"))
    return named or f"{home_of(arguments).rstrip('/')}/landing"


def engine_of(home: str, variables: Mapping[str, str]) -> str:
    """Return the setting `engine`: of the variables, else of the home's file, else `auto`."""
    return variables[VARIABLE] if VARIABLE in variables else str(settings_in(home).get("engine", "auto"))


def settings_in(home: str) -> dict[str, Any]:
    """Return the content of the settings file of a home, unchecked.

    A file that cannot be read counts as empty: the job itself says what is wrong with it.
    """
    try:
        return tomllib.loads(read_file(home, FILE).decode("utf-8"))
    except (OSError, ValueError, RecursionError, PstError):
        return {}


def is_local(master: str) -> bool:
    """Whether the Spark of a connection, as conn_type://host, runs on the machine of the task."""
    return LOCAL.search(master) is not None


def runs_here(engine: str, master: str) -> bool:
    """Whether a job runs as a process of the task, which starts Spark itself if a step is large."""
    return engine == "local" or (engine != "spark" and is_local(master))


def read_file(home: str, name: str) -> bytes:
    """Return the content of a file of a home. Raises FileNotFoundError."""
    if not names.storage_prefix(home):
        return (Path(home) / name).read_bytes()
    from pststream.storage.registry import files_at, normalize  # clients of object stores are slow to import

    return files_at(normalize(home)).read(name)


def file_name(text: str) -> str:
    """Return a text as a valid file name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)
