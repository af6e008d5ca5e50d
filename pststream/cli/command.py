"""Define the context, the result and the argument types of commands, and refuse paths and options that cannot work."""

import argparse
import datetime as dt
import re
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


def parse_moment(context: CommandContext, option: str, text: str | None) -> int | None:
    """Return a time of the arguments in microseconds since 1970, None without one; raises UsageError."""
    from pststream.input.parse_times import LAST_US, parse_time, time_fault
    from pststream.input.row_chunks import REASONS

    time = None if text is None else parse_time(text, context.settings.timezone)
    if text is not None and (fault := time_fault(time, LAST_US + 1)):
        raise UsageError(f"{option} {text}: {REASONS[fault]}", "ISO 8601, such as 2026-01-01T00:00:00Z")
    return time


MAX_PORT = 65_535


class JoinedTexts(argparse.Action):
    """Joins the values of an option that is given several times, with commas."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Add a value."""
        given = getattr(namespace, self.dest)
        setattr(namespace, self.dest, f"{given},{values}" if given else values)


def whole(text: str) -> int:
    """Read a whole number from 0."""
    return _whole_number(text, 0)


def age(text: str) -> dt.timedelta:
    """Read a whole number and a unit, such as 30d."""
    if not re.fullmatch("[0-9]{1,6}[smhd]", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number and s, m, h or d, such as 30d")
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    return dt.timedelta(**{units[text[-1]]: int(text[:-1])})


def positive(text: str) -> int:
    """Read a whole number from 1."""
    return _whole_number(text, 1)


def host_and_port(text: str) -> tuple[str, int]:
    """Split HOST:PORT; the host is empty if it is not given, and an IPv6 address may be in brackets."""
    host, _, port = text.rpartition(":")
    if (value := whole(port)) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{port} is greater than {MAX_PORT}")
    return host.removeprefix("[").removesuffix("]"), value


def _whole_number(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return value
