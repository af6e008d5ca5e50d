"""Hold a lock as a lease in a storage without file locks: a small file that its holder renews by conditional writes.

The file names the holder of the lock, and has a fencing token, which goes up with each holder. A holder that stops
renewing the lease loses it after LEASE_SECONDS by the clock of the storage, so the clocks of machines do not matter. If
the holder was a process of the same machine that has ended, the lease is free at once.

A process that takes over a lapsed lease first writes its fencing token into every table that the lock protects
(fencing.py), and every commit carries the token of its writer. So a previous holder that was only slow fails at its
next commit. Either it reads the new token in the table; or the token was committed after it had read the table, and
then the version that it commits is taken. Safety depends on no clock and no timing. A file that was deleted or damaged
counts as a lapsed lease, unless no table has a fencing token of this lock yet.
"""

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pststream.base.errors import PstError, RetryableError
from pststream.state.holder import LockTaken, describe_holder, describe_process, has_ended, process_namespace
from pststream.storage.contract import ConditionalFiles

LEASE_SECONDS = 60.0
"""Time after its last renewal when a lease lapses."""

RENEW_SECONDS = 10.0
MARGIN_SECONDS = 5.0
"""Others wait this much longer than the holder before a lease counts as lapsed: storages report whole seconds."""

POLL_SECONDS = 0.25
"""Pause between two attempts to take a lease."""


class Lease:
    """A lease that this process takes and renews in a thread.

    lapsed   the previous holder let it lapse, or the file was deleted, so that a previous holder may go on
    lost     another process has taken it over
    """

    is_checked_in_tables = True

    def __init__(self, files: ConditionalFiles, name: str, fencing_token: int, lapsed: bool) -> None:
        self.name, self.fencing_token, self.lapsed, self.lost = name, fencing_token, lapsed, False
        self._files = files
        self._holder_id = uuid.uuid4().hex
        self._content = describe_process() | {"number": fencing_token, "token": self._holder_id}
        self._etag: str | None = None
        self._valid_until = -1.0
        self._renewals = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_renewed, daemon=True, name=f"lease {name}")

    def acquire(self, etag: str | None) -> bool:
        """Replace the version with this ETag, or create the file; return False if another process was faster."""
        if not self._write(etag):
            return False
        self._thread.start()
        return True

    def check(self) -> None:
        """Raise RetryableError if the lease was not renewed in time, or another process has it."""
        if _clock() >= self._valid_until:
            raise RetryableError(
                f"{self.name}: this process was paused or could not reach the storage, and lost its lock",
                "nothing was changed since; run this again",
            )

    def release(self, free: bool) -> None:
        """Stop renewing the lease, and free it for others; if not `free`, let it lapse."""
        self._ended.set()
        self._thread.join()
        if free and _clock() < self._valid_until:
            self._content = {"number": self.fencing_token}
            with suppress(PstError):  # then it lapses
                self._write(self._etag)

    def _keep_renewed(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            try:
                if not self._write(self._etag):
                    self._valid_until, self.lost = -1.0, True
                    return
            except PstError:
                continue  # until the lease has lapsed

    def _write(self, etag: str | None) -> bool:
        """Write the lease if the file has this ETag; return False if another process has replaced it.

        If the answer to an earlier write was lost, the file has content of this process under an unknown ETag.
        """
        began, self._renewals = _clock(), self._renewals + 1
        content = json.dumps(self._content | {"renewals": self._renewals}).encode()
        written = self._files.write_if(self.name, content, etag)
        if written is None:
            stored = self._files.version(self.name)
            if stored is not None and stored.content == content:
                written = stored.etag
            elif stored is not None and _parse(stored.content).get("token") == self._holder_id:
                written = self._files.write_if(self.name, content, stored.etag)
            if written is None:
                return False
        self._etag, self._valid_until = written, began + LEASE_SECONDS
        return True


@contextmanager
def hold_lease(
    files: ConditionalFiles,
    name: str,
    seconds: float,
    last_token: Callable[[], int],
    fence: Callable[[Lease], None],
) -> Iterator[Lease]:
    """Hold the lease of this name; wait for it for at most `seconds`. Raises LockTaken.

    last_token: returns the last fencing token in the tables, 0 if there is none; called if the file has none
    fence: writes the token into the tables; called before the block if the lease has `lapsed`. If it raises, this lease
    is left to lapse, so that the next holder calls it again.
    """
    until = time.monotonic() + seconds
    while (lease := _try_acquire(files, name, time.monotonic() >= until, last_token)) is None:
        time.sleep(POLL_SECONDS)
    try:
        if lease.lapsed:
            fence(lease)
    except BaseException:
        lease.release(free=False)
        raise
    try:
        yield lease
    finally:
        lease.release(free=True)


def has_other_holder(files: ConditionalFiles, name: str) -> bool:
    """Whether another process holds the lease, or was killed while it held it."""
    version = files.version(name)
    content = _parse(version.content) if version else {}
    return "token" in content and (content.get("place"), content.get("process")) != (process_namespace(), os.getpid())


def _try_acquire(files: ConditionalFiles, name: str, is_last_try: bool, last_token: Callable[[], int]) -> Lease | None:
    """Return the lease, or None if another process has it; raise LockTaken at the last try."""
    version = files.version(name)
    content = _parse(version.content) if version else {}
    has_holder = "token" in content
    lapsed = version is not None and has_holder and (_is_late(version.age) or has_ended(content))
    if not has_holder or lapsed:
        token = int(content["number"]) if "number" in content else last_token()
        if "number" not in content and token:
            # The file was deleted or damaged, maybe while a process held the lock, whose token no table has yet.
            token, lapsed = token + 1, True
        lease = Lease(files, name, token + 1, lapsed)
        if lease.acquire(version.etag if version else None):
            return lease
    if is_last_try:
        raise LockTaken(describe_holder(content))
    return None


def _is_late(age: float) -> bool:
    return age > LEASE_SECONDS + MARGIN_SECONDS


def _parse(content: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(content)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _clock() -> float:
    """Return seconds of a clock that also runs while the process or the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
