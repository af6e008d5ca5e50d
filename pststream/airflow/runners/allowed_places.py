"""Admit the home and the landing folder of a trigger form, and say which connections' secrets a home may use.

Whoever may trigger a DAG may fill in its form. The home of the DAG and its landing folder are always allowed; others
are listed in Airflow's configuration, `[pststream] allowed_homes` and `allowed_landings`.
"""

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.sdk import conf

from pststream.airflow.runners.engine_choice import home_of
from pststream.airflow.runners.job_outcome import JobRefused
from pststream.base import names

SECTION = "pststream"
HOMES = "homes"
"""Key of a connection's extra: the homes that its secrets belong to."""

FORM = "--form-"
"""How the arguments begin that have the values of a form: `--form-home=`, `--form-landing=`. No job knows them."""

ANY_NAME = "/*"
"""How an entry ends that allows each folder directly in a folder, or each prefix directly below a prefix."""

NOT_IN_KEYS = frozenset("%?#\\")
"""Characters that clients of object stores decode, or end a key at, each in its own way."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunPlace:
    """Where a job may work.

    arguments  of the job, with the home and the landing folder that were compared with the allowed ones
    home       address of the home
    is_own     whether it is the home of the DAG, not another one that the form names
    """

    arguments: list[str]
    home: str
    is_own: bool


def admit(arguments: Sequence[str]) -> RunPlace:
    """Return the arguments of a job with what its form asks for. Raises JobRefused for what is not allowed."""
    words = [word for word in arguments if not word.startswith(FORM)]
    own_home = home = home_of(words)
    if asked := _value(arguments, f"{FORM}home="):
        home = _allowed("home", asked, [own_home])
        words = _replaced(words, "--home=", home)
    if asked := _value(arguments, f"{FORM}landing="):
        own = _value(words, "--landing=") or os.environ.get("PSTSTREAM_LANDING") or _landing_in(own_home)
        words = _replaced(words, "--landing=", _allowed("landing", asked, [own, _landing_in(home)]))
    return RunPlace(words, home, home == own_home)


def belongs_to(conn_id: str, homes: Any, place: RunPlace) -> bool:
    """Whether the secrets of a connection belong to the home of a run; logs a warning if not.

    homes  `homes` of the connection's extra: an address or a list of them; None or empty text: the home of the DAG
    """
    if homes in (None, ""):
        belongs = place.is_own
    else:
        entries = _checked_list([homes] if isinstance(homes, str) else homes, f"connection {conn_id}: homes")
        belongs = _is_listed(place.home, entries)
    if not belongs:
        log.warning(
            "connection %s is not used: `%s` of its extra does not name the home %s", conn_id, HOMES, place.home
        )
    return belongs


def _allowed(name: str, asked: str, own: Sequence[str]) -> str:
    """Return the allowed address as it was compared, with links resolved: a link may change after the check."""
    option = f"allowed_{name}s"
    try:
        address = _canonical(asked)
    except ValueError as error:
        raise JobRefused(f"{name} {asked!r} of the form: {error}") from None
    for one in own:
        if _is_same(address, one):
            return one
    if _is_listed(address, _option(option)):
        return address
    raise JobRefused(
        f"{name} {asked!r} of the form is not allowed. Leave the field empty, or ask an administrator to add the "
        f"address to the JSON list `[{SECTION}] {option}` of Airflow's configuration, or of the variable "
        f"AIRFLOW__{SECTION.upper()}__{option.upper()} in the environment of the tasks"
    )


def _option(name: str) -> list[str]:
    """Return the addresses of an option of the deployment."""
    try:
        entries = json.loads(conf.get(SECTION, name, fallback="") or "[]")
    except ValueError:
        entries = None
    return _checked_list(entries, f"[{SECTION}] {name}")


def _checked_list(entries: Any, what: str) -> list[str]:
    if not isinstance(entries, list) or not all(isinstance(entry, str) and entry for entry in entries):
        raise JobRefused(f"{what}: is not a list of addresses in JSON")
    return entries


def _is_listed(address: str, entries: Sequence[str]) -> bool:
    """Whether an address is one of the entries; each `/*` at the end of an entry is any one name."""
    return any(_fits(address, entry) for entry in entries)


def _fits(address: str, entry: str) -> bool:
    while entry.endswith(ANY_NAME):
        address, entry = (text.rpartition("/")[0] or "/" for text in (address, entry))
    return _is_same(address, entry)


def _is_same(address: str, other: str) -> bool:
    """Whether two addresses are one; False if either has more than one reading."""
    try:
        return _canonical(address) == _canonical(other)
    except ValueError:
        return False


def _canonical(address: str) -> str:
    """Return the one spelling of an address, without links. Raises ValueError for what has more than one reading."""
    prefix = names.storage_prefix(address)
    if not prefix:
        return os.path.realpath(address)
    parts = address.partition("://")[2].rstrip("/").split("/")
    if any(part in ("", ".", "..") or not part.isprintable() or NOT_IN_KEYS & set(part) for part in parts):
        raise ValueError("is no plain address in a bucket: give s3://bucket/prefix, without % ? # \\ . and ..")
    return prefix + "/".join(parts)


def _landing_in(home: str) -> str:
    return f"{home.rstrip('/')}/landing"


def _value(arguments: Sequence[str], option: str) -> str:
    return next((word.removeprefix(option) for word in arguments if word.startswith(option)), "")


def _replaced(arguments: Sequence[str], option: str, value: str) -> list[str]:
    return [option + value if word.startswith(option) else word for word in arguments]
