"""Types of arguments on the command line: whole numbers, HOST:PORT, texts that are given several times."""

import argparse
from typing import Any

MAX_PORT = 65_535


class JoinedTexts(argparse.Action):
    """Joins the values of an option that is given several times, with commas."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Add a value."""
        given = getattr(namespace, self.dest)
        setattr(namespace, self.dest, f"{given},{values}" if given else values)


def version(text: str) -> int:
    """Read a version, from 0."""
    return _whole_number(text, 0)


def positive(text: str) -> int:
    """Read a whole number from 1."""
    return _whole_number(text, 1)


def seed(text: str) -> int:
    """Read a seed, from 0."""
    return _whole_number(text, 0)


def host_and_port(text: str) -> tuple[str, int]:
    """Split HOST:PORT; the host is empty if it is not given, and an IPv6 address may be in brackets."""
    host, _, port = text.rpartition(":")
    if (number := _whole_number(port, 0)) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{port} is greater than {MAX_PORT}")
    return host.removeprefix("[").removesuffix("]"), number


def _whole_number(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return value
