"""Hold locks of a home, as files or as leases in a bucket, and fence tables from processes that have lost theirs.

A file lock (flock) ends with its process. A lease is a small file in a storage without file locks, which its holder
renews by conditional writes; it lapses LEASE_SECONDS after the last renewal, by the clock of the storage, and is free
at once if the holder was a process of the same machine that has ended. Both files name the holder and have a fencing
token, which goes up with each holder.

A process that is paused, or that a server has lost from sight, may lose its lock without knowing it; some file systems
even grant a lock to each machine. So the next holder writes itself into the file, and then its fencing token into every
table that the lock protects. A previous holder fails at its next commit: it sees the token in the table, or that the
file names another holder, or it had read the table before the token was written, and then the version that it commits
is taken. Safety depends on no clock and no timing. A file that was deleted or damaged counts as a lapsed lease, unless
no table has a fencing token of this lock yet.
"""

import fcntl
import json
import os
import platform
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

from deltalake import DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError

from pststream.base import names
from pststream.base.errors import PstError, RetryableError
from pststream.base.utc_times import iso, utc_now
from pststream.state.delta_log import next_entry
from pststream.state.tables import TABLES
from pststream.storage.contract import ConditionalFiles
from pststream.storage.registry import files_at
from pststream.tables.open_tables import latest_table, open_table


class LockTaken(Exception):
    """Another process holds the lock; `holder` describes it."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


def describe_process() -> dict[str, object]:
    """Return what a lock says of this process. The command comes without arguments, which may be confidential."""
    words = [Path(sys.argv[0]).name, *[word for word in sys.argv[1:2] if not word.startswith("-")]]
    since = iso(utc_now(), "seconds")
    described = {"process": os.getpid(), "host": platform.node(), "command": " ".join(words), "since": since}
    return described | {"place": process_namespace(), "began": _start_time(os.getpid())}


def describe_holder(content: Any) -> str:
    """Return the content of a lock as a part of a sentence; its holder may not have written it yet."""
    try:
        return f"{content['command']} (process {content['process']}, since {content['since']}, on {content['host']})"
    except (KeyError, TypeError):
        return "another command"


def has_ended(content: Mapping[str, Any]) -> bool:
    """Whether the holder was a process of this machine that has ended."""
    return content.get("place") == process_namespace() and content.get("began") != _start_time(content.get("process"))


def process_namespace() -> str:
    """Return what makes process ids unique: the boot of this machine, and the namespace of process ids."""
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text('ascii').strip()} {os.readlink('/proc/self/ns/pid')}"


def _start_time(process: Any) -> str | None:
    """Return when a process started, which no other process with its id shares; None if there is none."""
    try:
        return Path(f"/proc/{int(process)}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except (OSError, ValueError, TypeError, IndexError):
        return None


def _parse(content: bytes) -> dict[str, Any] | None:
    """Return the content of a lock; None if it has none, because it is new, or was damaged by a power cut."""
    try:
        parsed = json.loads(content)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


# File locks

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
                return not is_same or (_read(named) or {}).get("token") != self._content["token"]
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
        content = _read(file)
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
        with open(
            path, "r+b", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_CREAT, 0o666)
        ) as file:
            while not _try_lock(file):
                if time.monotonic() >= until:
                    raise LockTaken(describe_holder(_read(file)))
                time.sleep(POLL_SECONDS)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                yield file
                return


def _try_lock(file: FileIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(file: FileIO, content: Mapping[str, Any]) -> None:
    """Replace the content, padded to one size: ext4 flushes a file that was truncated to disk when it is closed."""
    os.pwrite(file.fileno(), json.dumps(content).encode().ljust(SIZE), 0)


def _read(file: FileIO) -> dict[str, Any] | None:
    return _parse(os.pread(file.fileno(), SIZE, 0))


def _close_in_child() -> None:
    """Close the files in a process forked from the holder: otherwise the locks end with the last of both."""
    for file in _open_files:
        file.close()


os.register_at_fork(after_in_child=_close_in_child)

# Leases

LEASE_SECONDS = 60.0
"""Time after its last renewal when a lease lapses."""

RENEW_SECONDS = 10.0
MARGIN_SECONDS = 5.0
"""Others wait this much longer than the holder before a lease counts as lapsed: storages report whole seconds."""

LEASE_POLL_SECONDS = 0.25
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
            elif stored is not None and (_parse(stored.content) or {}).get("token") == self._holder_id:
                written = self._files.write_if(self.name, content, stored.etag)
            if written is None:
                return False
        self._etag, self._valid_until = written, began + LEASE_SECONDS
        return True


@contextmanager
def hold_lease(
    files: ConditionalFiles, name: str, seconds: float, last_token: Callable[[], int], fence: Callable[[Lease], None]
) -> Iterator[Lease]:
    """Hold the lease of this name; wait for it for at most `seconds`. Raises LockTaken.

    last_token: returns the last fencing token in the tables, 0 if there is none; called if the file has none
    fence: writes the token into the tables; called before the block if the lease has `lapsed`. If it raises, this lease
    is left to lapse, so that the next holder calls it again.
    """
    until = time.monotonic() + seconds
    while (lease := _try_acquire(files, name, time.monotonic() >= until, last_token)) is None:
        time.sleep(LEASE_POLL_SECONDS)
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
    content = (_parse(version.content) if version else None) or {}
    return "token" in content and (content.get("place"), content.get("process")) != (process_namespace(), os.getpid())


def _try_acquire(files: ConditionalFiles, name: str, is_last_try: bool, last_token: Callable[[], int]) -> Lease | None:
    """Return the lease, or None if another process has it; raise LockTaken at the last try."""
    version = files.version(name)
    content = (_parse(version.content) if version else None) or {}
    has_holder = "token" in content
    lapsed = version is not None and has_holder and (version.age > LEASE_SECONDS + MARGIN_SECONDS or has_ended(content))
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


def _clock() -> float:
    """Return seconds of a clock that also runs while the process or the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# Fencing tokens of the locks, in tables and commits

DELIVERY_TABLES = (names.DELIVERIES, names.DEAD_LETTERS)
QUESTION_TABLES = (names.QUESTION_FILES, names.QUESTION_ANSWERS, names.QUESTIONS, names.REJECTS)
TRIES = 5


class HeldLock(Protocol):
    """A lock that this process holds: a lease or a file lock.

    is_checked_in_tables   whether a later holder is seen by its fencing token in the table; otherwise `check` reads
                           the file, which costs a request in a bucket, and a hundredth of the former in a folder
    """

    name: str
    fencing_token: int
    is_checked_in_tables: bool

    @property
    def lost(self) -> bool:
        """Whether another process has taken it over."""

    def check(self) -> None:
        """Raise RetryableError if it was lost."""


def with_fencing_tokens(
    table: DeltaTable, locks: Iterable[HeldLock], transactions: Sequence[Transaction]
) -> list[Transaction]:
    """Return the transactions of a commit to `table`, as it was just read: the given ones and the fencing tokens.

    Raises RetryableError if a lock was lost.
    """
    tokens = []
    for lock in locks:
        lock.check()
        if lock.is_checked_in_tables and (table.transaction_version(lock.name) or 0) > lock.fencing_token:
            raise RetryableError(
                f"{lock.name}: another process has taken over this lock", "nothing was changed since; run this again"
            )
        tokens.append(Transaction(lock.name, lock.fencing_token))
    return [*transactions, *tokens]


def write_fencing_token(tables: Iterable[str], lock: HeldLock) -> None:
    """Write a lock's fencing token into the tables at these addresses, so that no earlier holder commits to them."""
    transaction = {"txn": {"appId": lock.name, "version": lock.fencing_token}}
    for address in tables:
        for _ in range(TRIES):
            table = open_table(address)
            entry = next_entry(address, table, "FENCE", [transaction])
            if files_at(address).create(f"_delta_log/{table.version() + 1:020}.json", entry):
                break  # otherwise the earlier holder has committed just now, for the last time
        else:
            raise RetryableError(f"{address}: others commit to it all the time", "run this again")


def greatest_fencing_token(tables: Iterable[str], name: str) -> int:
    """Return the greatest fencing token of this lock in the tables at these addresses; 0 if it was never held.

    A home that was copied has the tokens of the original.
    """
    greatest = 0
    for address in tables:
        with suppress(TableNotFoundError), latest_table(address) as table:
            greatest = max(greatest, table.transaction_version(name) or 0)
    return greatest


def fenced_tables(scope: str) -> Sequence[str]:
    """Return the names of the tables that the holder of a scope's lock commits to; scope "" is the whole home."""
    if not scope:
        return tuple(TABLES)
    if scope.startswith("deliver-"):
        return DELIVERY_TABLES
    if scope == names.QUESTIONS:
        return QUESTION_TABLES
    return [name for name in TABLES if scope == f"compact-{name}"]
