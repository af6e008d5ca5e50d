"""Locks of a home in a folder: files under flock, so that a lock goes with its process; each tells who holds it.

Those of a home in a bucket: lease.py.
"""

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
"""How often a lock that is taken is tried again."""


class Taken(Exception):
    """Another holds the lock; `holder` tells who."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


@contextmanager
def locked(path: Path, seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file, which is tried for so long; raises Taken."""
    until = time.monotonic() + seconds
    with open(path, "a+", encoding="utf-8") as file:
        while not _try(file):
            if time.monotonic() >= until:
                raise Taken(_told(file))
            time.sleep(POLL_SECONDS)
        _write(file, json.dumps(this_process()))
        try:
            yield
        finally:
            _write(file, "")


def holder(path: Path) -> int | None:
    """Process id of who holds a lock; also of one who was killed while holding it. None: nobody."""
    try:
        return int(json.loads(path.read_text("utf-8"))["process"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _try(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def this_process() -> dict[str, object]:
    """Who holds a lock. Program and command, without arguments: these may hold what is nobody's business."""
    words = [Path(sys.argv[0]).name, *[word for word in sys.argv[1:2] if not word.startswith("-")]]
    since = iso(utc_now(), "seconds")
    return {"process": os.getpid(), "host": platform.node(), "command": " ".join(words), "since": since}


def _write(file: TextIO, text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def _told(file: TextIO) -> str:
    file.seek(0)
    try:
        return shown(json.loads(file.read()))
    except ValueError:
        return shown({})


def shown(found: Any) -> str:
    """What the holder has written, as a sentence's part; it may not have come to that yet."""
    try:
        return f"{found['command']} (process {found['process']}, since {found['since']}, on {found['host']})"
    except (KeyError, TypeError):
        return "another command"
