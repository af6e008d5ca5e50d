"""Hold the lock of a local file (flock), which ends with its process; the file says which process holds it.

A process that is stopped keeps the lock. It can lose it all the same: the file is deleted, or the home is replaced, or
a server of NFS takes the lock from a machine that it could not reach; and some file systems grant a lock to each
machine. Then the next holder writes itself into the file, and after that a fencing token into every table that the lock
protects (fencing.py). A commit reads its table, then the file, and then creates the next version. So a previous holder
either sees that the file names another one, or had read its table before the token, and the version is taken.
"""

import fcntl
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from pststream.base.errors import RetryableError
from pststream.state.holder import LockTaken, describe_holder, describe_process, has_ended

POLL_SECONDS = 0.05
"""Pause between two attempts to take a lock."""

SIZE = 2_048
"""Bytes of a lock file: more than its content."""

UNFENCED = "unfenced"
"""Key of a file whose holder has not yet written its fencing token into the tables."""

_open_files: set[FileIO] = set()
"""The open files of the locks that this process holds."""


class FileLock:
    """A lock that this process holds.

    lapsed   nobody knows whether the previous holder has ended: it did not release the lock, or the file was deleted
    """

    is_checked_in_tables = False

    def __init__(self, path: Path, file: FileIO, fencing_token: int, lapsed: bool) -> None:
        self.name, self.fencing_token, self.lapsed = path.name, fencing_token, lapsed
        self._path, self._file = path, file
        self._content = describe_process() | {"number": fencing_token, "token": uuid.uuid4().hex}
        _write(file, self._content | ({UNFENCED: True} if lapsed else {}))

    @property
    def lost(self) -> bool:
        """Whether the file names another process, or is gone; also in a process forked from the holder."""
        if self._file.closed:
            return True
        try:
            with open(self._path, "rb", buffering=0) as named:  # opened again: until then NFS reads from its cache
                is_same = os.path.samestat(os.fstat(self._file.fileno()), os.fstat(named.fileno()))
                return not is_same or (_parse(named) or {}).get("token") != self._content["token"]
        except OSError:
            return True

    def check(self) -> None:
        """Raise RetryableError if the lock was lost."""
        if self.lost:
            raise RetryableError(
                f"{self._path}: another process has taken over this lock, or its file was deleted",
                "nothing was changed since; run this again",
            )

    def end_fence(self) -> None:
        """Note that the tables have the fencing token."""
        self.lapsed = False
        _write(self._file, self._content)

    def release(self) -> None:
        """Write that nobody holds the lock, unless another process has taken it over, or the fence has failed."""
        if not self.lapsed and not self.lost:
            _write(self._file, {"number": self.fencing_token})


@contextmanager
def hold_file_lock(
    path: Path, seconds: float, last_token: Callable[[], int], fence: Callable[[FileLock], None]
) -> Iterator[FileLock]:
    """Hold the lock of a file; wait for it for at most `seconds`. Raises LockTaken.

    last_token: returns the last fencing token in the tables, 0 if there is none; called if the file has no content
    fence: writes the token into the tables; called before the block if the lock `lapsed`. If it raises, the next holder
    calls it again.
    """
    with _locked_file(path, time.monotonic() + seconds) as file:
        content = _parse(file)
        token = int(content.get("number", 0)) if content is not None else last_token()
        lock = FileLock(path, file, token + 1, _has_lapsed(content, token))
        _open_files.add(file)
        try:
            if lock.lapsed:
                fence(lock)
                lock.end_fence()
            yield lock
        finally:
            _open_files.discard(file)
            lock.release()


def _has_lapsed(content: dict[str, Any] | None, token: int) -> bool:
    """Whether a holder may go on that does not know that it has lost the lock."""
    if content is None:
        return token > 0
    return UNFENCED in content or ("process" in content and not has_ended(content))


def holder_process(path: Path) -> int | None:
    """Return the id of the process that holds a lock, or that was killed while it held it; None if nobody does."""
    try:
        return int(json.loads(path.read_text("utf-8"))["process"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def _locked_file(path: Path, until: float) -> Iterator[FileIO]:
    """Open and lock the file at a path, which others may delete meanwhile."""
    while True:
        with open(path, "r+b", buffering=0, opener=_open_or_create) as file:
            while not _try_lock(file):
                if time.monotonic() >= until:
                    raise LockTaken(describe_holder(_parse(file)))
                time.sleep(POLL_SECONDS)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                yield file
                return


def _open_or_create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o666)


def _try_lock(file: FileIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(file: FileIO, content: Mapping[str, Any]) -> None:
    """Replace the content, padded to one size: ext4 flushes a file that was truncated to disk when it is closed."""
    os.pwrite(file.fileno(), json.dumps(content).encode().ljust(SIZE), 0)


def _parse(file: FileIO) -> dict[str, Any] | None:
    """Return the content of the file; None if it has none, because it is new, or was damaged by a power cut."""
    try:
        parsed = json.loads(os.pread(file.fileno(), SIZE, 0))
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _close_in_child() -> None:
    """Close the files in a process forked from the holder: otherwise the locks end with the last of both."""
    for file in _open_files:
        file.close()


os.register_at_fork(after_in_child=_close_in_child)
