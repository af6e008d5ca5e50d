"""Open Delta tables with delta-rs; a table that this process uses again is kept open and advanced by the new commits.

Opening a table reads its last checkpoint and every commit after it, which takes 10 ms and more; a micro-batch uses
tables some 35 times. Reading the commits since the last use takes 1 to 3 ms.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, RLock

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from pststream.errors import RetryableError
from pststream.storage.registry import storage_of

MAX_TABLES = 64
"""Tables that are kept open: those of three homes. The table that was opened first is closed first."""

Stamp = tuple[int, int, int]
"""Inode, size and time of the last change of a file, in ns."""


@dataclass
class _Kept:
    """A table that this process keeps open, at the version of its last use.

    commit  stamp of the file of its last commit: another one if the table was deleted and made again
    """

    lock: RLock = field(default_factory=RLock)
    table: DeltaTable | None = None
    commit: Stamp | None = None


_kept: dict[str, _Kept] = {}
_lock = Lock()


def open_table(address: str, version: int | None = None) -> DeltaTable:
    """Open a table, at its latest version or at a given one."""
    with translate_delta_errors(address):
        location = storage_of(address).delta_location(address)
        return DeltaTable(location.uri, version=version, storage_options=location.options)


@contextmanager
def latest_table(address: str) -> Iterator[DeltaTable]:
    """Return a table at its latest version, for this block: no other thread gets it before the block ends.

    The caller must not keep the table, since it is advanced at the next use; a dataset made from it stays as it is. To
    keep a version, use `open_table`. A table in a bucket is opened each time: only a file of a local log shows cheaply
    that the table is still the same.
    """
    if storage_of(address).is_remote:
        yield open_table(address)
        return
    kept = _entry(address)
    with kept.lock:
        table = _advanced(address, kept)
        kept.table = None  # if the block fails, the next use opens the table
        yield table
        kept.table, kept.commit = table, _commit_stamp(address, table)


def _entry(address: str) -> _Kept:
    with _lock:
        if address not in _kept and len(_kept) >= MAX_TABLES:
            del _kept[next(iter(_kept))]
        return _kept.setdefault(address, _Kept())


def _advanced(address: str, kept: _Kept) -> DeltaTable:
    """Return the kept table at its latest version; open it if none is kept or it is another table now."""
    table = kept.table
    if table is None or kept.commit is None or _commit_stamp(address, table) != kept.commit:
        return open_table(address)
    with translate_delta_errors(address):
        table.update_incremental()
    return table


def _commit_stamp(address: str, table: DeltaTable) -> Stamp | None:
    """Return the stamp of the file of the table's last commit; None if upkeep has removed it."""
    try:
        status = os.stat(f"{address}/_delta_log/{table.version():020}.json")
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def translate_delta_errors(address: str) -> Iterator[None]:
    """Raise errors of delta-rs in a remote storage as RetryableError, with their first line: the rest quotes the store.

    TableNotFoundError passes through: it is no error of the storage.
    """
    try:
        yield
    except TableNotFoundError:
        raise
    except (DeltaError, OSError) as error:
        if not storage_of(address).is_remote:
            raise
        raise RetryableError(f"{address}: {type(error).__name__}: {_first_line(error)}", "run this again") from None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "").strip()


os.register_at_fork(after_in_child=_kept.clear)
