"""Locks of a home in a bucket: leases, small objects that their holders write anew, on condition of the ETag.

An object tells who holds the lock and carries a number that goes up with each holder. A holder that stops renewing it
loses it after LEASE_SECONDS, by the store's own clock, so that the clocks of machines do not matter; on the same
machine as soon as its process is gone. Whoever takes it over then writes the number into every table that goes with
the lock (fence.py), and every commit carries the number of its holder. So a holder that was taken for dead and goes on
fails at its next commit: either it sees the fence in the table that it has read, or the fence came between its reading
and its commit, and delta-rs sees two transactions of one application. No clock and no timing is trusted for that.
"""

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pststream.errors import PstError, RetryableError
from pststream.state.locking.file_lock import Taken, shown, this_process
from pststream.storage.contract import ConditionalFiles

LEASE_SECONDS = 60.0
"""A lease that was not renewed for so long is free for others."""

RENEW_SECONDS = 10.0
MARGIN_SECONDS = 5.0
"""A lapse is judged so much later by others than by the holder: the store tells whole seconds."""

POLL_SECONDS = 0.25


class Lease:
    """A lease that is held; `lapsed`: whether the holder before it let it lapse; `lost`: whether another has it now."""

    def __init__(self, files: ConditionalFiles, name: str, number: int, lapsed: bool) -> None:
        self.name, self.number, self.lapsed, self.lost = name, number, lapsed, False
        self._files = files
        self._token = uuid.uuid4().hex
        self._told = this_process() | {"number": number, "token": self._token, "place": place()} | _process()
        self._etag: str | None = None
        self._until = -1.0
        self._renewals = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name=f"lease {name}")

    def take(self, etag: str | None) -> bool:
        """Write it over the version with this ETag, or as the first; False if another was quicker."""
        if not self._write(etag):
            return False
        self._thread.start()
        return True

    def check(self) -> None:
        """Raise RetryableError if it was not renewed in time, or another has it."""
        if _clock() >= self._until:
            raise RetryableError(
                f"{self.name}: this process stood still or could not reach the store, and lost its lock",
                "nothing was changed since; run this again",
            )

    def end(self, free: bool) -> None:
        """Give it back; or, if not `free`, leave it to lapse."""
        self._ended.set()
        self._thread.join()
        if free and _clock() < self._until:
            self._told = {"number": self.number}
            with suppress(PstError):  # then it lapses
                self._write(self._etag)

    def _keep(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            try:
                if not self._write(self._etag):
                    self._until, self.lost = -1.0, True
                    return
            except PstError:
                continue  # until the lease has lapsed

    def _write(self, etag: str | None) -> bool:
        """Write it on condition of an ETag; False if that is another's by now.

        A write whose answer was lost meets its own work when it is tried again, or when the next one is.
        """
        began, self._renewals = _clock(), self._renewals + 1
        content = json.dumps(self._told | {"renewals": self._renewals}).encode()
        written = self._files.write_if(self.name, content, etag)
        if written is None:
            there = self._files.version(self.name)
            if there is not None and there.content == content:
                written = there.etag
            elif there is not None and _read(there.content).get("token") == self._token:
                written = self._files.write_if(self.name, content, there.etag)
            if written is None:
                return False
        self._etag, self._until = written, began + LEASE_SECONDS
        return True


@contextmanager
def leased(
    files: ConditionalFiles, name: str, seconds: float, before: Callable[[], int], fence: Callable[[Lease], None]
) -> Iterator[Lease]:
    """Hold the lease of this name, which is tried for so long; raises locks.Taken.

    before: the number of the last holder, asked for where no object tells it
    fence: called before anything else if the holder before let it lapse. Fails that, the next holder does it.
    """
    until = time.monotonic() + seconds
    while (lease := _taken(files, name, time.monotonic() >= until, before)) is None:
        time.sleep(POLL_SECONDS)
    try:
        if lease.lapsed:
            fence(lease)
    except BaseException:
        lease.end(free=False)
        raise
    try:
        yield lease
    finally:
        lease.end(free=True)


def held_by_another(files: ConditionalFiles, name: str) -> bool:
    """Whether another process holds it, or held it and was killed."""
    version = files.version(name)
    told = _read(version.content) if version else {}
    return "token" in told and (told.get("place"), told.get("process")) != (place(), os.getpid())


def place() -> str:
    """What tells process ids apart: this start of this machine, and the namespace of processes in it."""
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text('ascii').strip()} {os.readlink('/proc/self/ns/pid')}"


def _taken(files: ConditionalFiles, name: str, last: bool, before: Callable[[], int]) -> Lease | None:
    """The lease, or None if another has it; Taken on the last try."""
    version = files.version(name)
    told = _read(version.content) if version else {}
    held = "token" in told
    lapsed = version is not None and held and (version.age > LEASE_SECONDS + MARGIN_SECONDS or _is_gone(told))
    if not held or lapsed:
        number = int(told["number"]) if "number" in told else before()
        lease = Lease(files, name, number + 1, lapsed)
        if lease.take(version.etag if version else None):
            return lease
    if last:
        raise Taken(shown(told))
    return None


def _is_gone(told: dict[str, Any]) -> bool:
    """Whether the holder was a process of this machine that is no more."""
    return told.get("place") == place() and told.get("began") != _began(told.get("process"))


def _process() -> dict[str, Any]:
    return {"began": _began(os.getpid())}


def _began(process: Any) -> str | None:
    """When a process began, which no other of the same id did; None if there is none."""
    try:
        return Path(f"/proc/{int(process)}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except (OSError, ValueError, TypeError, IndexError):
        return None


def _read(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _clock() -> float:
    """Goes on while the process or the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
