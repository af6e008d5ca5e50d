"""What a command is given, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pststream.errors import UsageError
from pststream.progress import Progress
from pststream.settings import Settings
from pststream.state.home import Home

DONE, FAILED, BAD_USAGE, DONE_WITH_REJECTS = 0, 1, 2, 3


@dataclass(frozen=True)
class Answer:
    """What a command has to say: a document for programs, a text for people, an exit code."""

    document: Any
    text: str
    code: int = DONE


@dataclass(frozen=True)
class Context:
    """What every command is given."""

    home: Home
    settings: Settings
    say: Progress


def check_out(out: str | Path | None, option: str = "--out", folder_is_made: bool = False) -> None:
    """Raise UsageError if no file can be written there, before the work of which it is to tell."""
    if out is None:
        return
    path = Path(out)
    if path.is_dir():
        raise UsageError(f"{option} {out}: is a folder", "give the name of a file")
    if not folder_is_made and not path.parent.is_dir():
        raise UsageError(f"{option} {out}: there is no folder {path.parent}", "make it, or give one that is there")


def refuse(command: str, options: Mapping[str, Any]) -> None:
    """Raise UsageError if one of these options was given (is not None, not False, not empty): it would do nothing."""
    for option, given in options.items():
        if given is not None and given is not False and given != []:
            raise UsageError(f"{option} is not of {command}", "leave it out")
