"""Define the context and the result of a command function, and refuse output paths and options that cannot work."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pststream.base.errors import UsageError
from pststream.base.progress import Progress
from pststream.settings import Settings
from pststream.state.home import Home

DONE, FAILED, BAD_USAGE, DONE_WITH_REJECTS = 0, 1, 2, 3


@dataclass(frozen=True)
class CommandResult:
    """The result of a command: a document for programs, a text for people, an exit code."""

    document: Any
    text: str
    code: int = DONE


@dataclass(frozen=True)
class CommandContext:
    """What every command receives: the home, the settings, and the function that logs progress."""

    home: Home
    settings: Settings
    progress: Progress


def check_output_path(out: str | Path | None, option: str = "--out", creates_folder: bool = False) -> None:
    """Raise UsageError if `out` is a folder or its folder does not exist, before the command does the work.

    creates_folder: whether the command creates the parent folder itself.
    """
    if out is None:
        return
    path = Path(out)
    if path.is_dir():
        raise UsageError(f"{option} {out}: is a folder", "give the name of a file")
    if not creates_folder and not path.parent.is_dir():
        raise UsageError(f"{option} {out}: there is no folder {path.parent}", "create it, or give an existing one")


def refuse_options(command: str, options: Mapping[str, Any]) -> None:
    """Raise UsageError if one of these options was given (is not None, False or empty), as it would have no effect."""
    for option, value in options.items():
        if value is not None and value is not False and value != []:
            raise UsageError(f"{option} does not apply to {command}", "leave it out")
