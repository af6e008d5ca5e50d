"""Hold the lock of a local file (flock): it ends with its process, and the file says which process holds it."""

import fcntl
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from pststream.utc_times import iso, utc_now

POLL_SECONDS = 0.05
"""Pause between two attempts to take a lock."""


class LockTaken(Exception):
    """Another process holds the lock; `holder` describes it."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


@contextmanager
def hold_file_lock(path: Path, seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file; wait for it for at most `seconds`. Raises LockTaken."""
    until = time.monotonic() + seconds
    with open(path, "a+", encoding="utf-8") as file:
        while not _try_lock(file):
            if time.monotonic() >= until:
                raise LockTaken(_read_holder(file))
            time.sleep(POLL_SECONDS)
        _write(file, json.dumps(describe_process()))
        try:
            yield
        finally:
            _write(file, "")


def holder_process(path: Path) -> int | None:
    """Return the id of the process that holds a lock, or that was killed while it held it; None if nobody does."""
    try:
        return int(json.loads(path.read_text("utf-8"))["process"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def describe_process() -> dict[str, object]:
    """Return what a lock says of this process. The command comes without arguments, which may be confidential."""
    words = [Path(sys.argv[0]).name, *[word for word in sys.argv[1:2] if not word.startswith("-")]]
    since = iso(utc_now(), "seconds")
    return {"process": os.getpid(), "host": platform.node(), "command": " ".join(words), "since": since}


def describe_holder(content: Any) -> str:
    """Return the content of a lock as a part of a sentence; its holder may not have written it yet."""
    try:
        return f"{content['command']} (process {content['process']}, since {content['since']}, on {content['host']})"
    except (KeyError, TypeError):
        return "another command"


def _try_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(file: TextIO, text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def _read_holder(file: TextIO) -> str:
    file.seek(0)
    try:
        return describe_holder(json.loads(file.read()))
    except ValueError:
        return describe_holder({})
