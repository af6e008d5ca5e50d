"""Open Delta tables with delta-rs; a table that this process uses again is kept open and advanced by the new commits.

Opening a table reads its last checkpoint and every commit after it, which takes 10 ms and more; a micro-batch uses
tables some 35 times. Reading the commits since the last use takes 1 to 3 ms. Where there are none, as in most uses, the
list of the names in a local log shows it in 0.02 ms.

This is the only cache of tables in the process. What a caller makes of one version of a table, such as the list of its
files, is kept beside the open table, and so are the rows of small data files (`delta_tables.read_table`).
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from pststream.base.errors import PstError, RetryableError
from pststream.base.names import DELTA_LOG
from pststream.base.texts import mask_urls
from pststream.storage.contract import DeltaLocation, Storage
from pststream.storage.registry import storage_of

MAX_TABLES = 64
"""Tables that are kept open: those of three homes. The table that was opened first is closed first."""

KEPT_BYTES = 16 * 1024 * 1024
"""Memory for the rows of small files of all tables. Those of the table that was opened first are dropped first."""

LAST_CHECKPOINT = "_last_checkpoint"
"""The file in a log that names the last checkpoint; its name comes after those of all entries."""

Stamp = tuple[int, int | str]
"""Size of a file, and time of its last change in ns; in a bucket its ETag."""

KeptRows = dict[tuple[str, Stamp | None], pa.Table]


@dataclass
class _Kept:
    """A table that this process keeps open after a use. Its storage is looked up once, when the first use makes this.

    location    where it is, with the credentials of its storage, which may change
    checkpoint  stamp of the pointer to the last checkpoint before the table was opened, None if there was none: after a
                later one, upkeep may remove log entries that the open table still reads, so it is opened again
    version     at its last use
    commit      stamp of the file of that version's commit: another one if the table was deleted and made again
    values      what callers made of the table at that version, by names that they chose
    rows        rows of small data files, by path and stamp (None in a bucket); they outlast the version
    rows_bytes  memory of these rows
    """

    address: str
    storage: Storage
    lock: RLock = field(default_factory=RLock)
    table: DeltaTable | None = None
    location: DeltaLocation | None = None
    checkpoint: Stamp | None = None
    version: int = -1
    commit: Stamp | None = None
    values: dict[str, Any] = field(default_factory=dict)
    rows: KeptRows = field(default_factory=dict)
    rows_bytes: int = 0

    def advance(self) -> DeltaTable:
        """Return the table at its latest version; open it if it is not kept or is another table now."""
        location = self.storage.delta_location(self.address)
        if self.table is not None and self.location == location and self.commit is not None:
            commit, checkpoint, has_later = self._look()
            if (commit, checkpoint) == (self.commit, self.checkpoint):
                if has_later:
                    self.values = {}
                    self.table.update_incremental()
                return self.table
        self.location, self.version, self.values = location, -1, {}
        self.checkpoint = self._stamp(LAST_CHECKPOINT)
        return _open(location)

    def keep(self, table: DeltaTable) -> None:
        """Keep a table after its use. If its last commit cannot be seen now, the next use opens the table."""
        self.table = table
        if self.version != table.version():
            self.version, self.commit = table.version(), None
            with suppress(OSError, PstError):
                self.commit = self._stamp(_entry_name(self.version))

    def _look(self) -> tuple[Stamp | None, Stamp | None, bool]:
        """Look at the log; in a bucket by one request, where delta-rs would need two, and the stamps two more.

        Returns the stamp of the file of the version's commit, None if it is not there (upkeep removes an entry only
        when a checkpoint of its version or a later one is there); that of the pointer to the last checkpoint, None if
        there is none; and whether there are names of later versions.
        """
        entry, folder = _entry_name(self.version), self.storage.local_path(self.address)
        if folder is not None:
            commit, checkpoint = self._stamp(entry), self._stamp(LAST_CHECKPOINT)
            return commit, checkpoint, commit is not None and self._has_later(os.listdir(folder / DELTA_LOG))
        store = self.storage.objects(self.address)
        prefix = f"{store.prefix}/{DELTA_LOG}/"
        listed = store.list_objects(prefix, after=f"{prefix}{self.version:020}")
        stamps = {one.key.removeprefix(prefix): (one.bytes, one.etag) for one in listed}
        return stamps.get(entry), stamps.get(LAST_CHECKPOINT), self._has_later(stamps)

    def _has_later(self, names: Iterable[str]) -> bool:
        later = f"{self.version + 1:020}"
        return any(name[:20].isdigit() and name >= later for name in names)

    def _stamp(self, name: str) -> Stamp | None:
        """Return the stamp of a file of the log, None without it. In a bucket a listing costs ten times as much."""
        folder = self.storage.local_path(self.address)
        if folder is not None:
            with suppress(FileNotFoundError):
                return stamp_of_file(folder / DELTA_LOG / name)
            return None
        file = self.storage.conditional_files(self.address).version(f"{DELTA_LOG}/{name}")
        return None if file is None else (len(file.content), file.etag.strip('"'))


def stamp_of_file(file: Path) -> Stamp:
    """Return the stamp of a local file. Raises FileNotFoundError."""
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def _entry_name(version: int) -> str:
    return f"{version:020}.json"


_kept: dict[str, _Kept] = {}
_lock = Lock()


def open_table(address: str, version: int | None = None) -> DeltaTable:
    """Open a table, at its latest version or at a given one."""
    with translate_delta_errors(address):
        return _open(storage_of(address).delta_location(address), version)


def _open(location: DeltaLocation, version: int | None = None) -> DeltaTable:
    return DeltaTable(location.uri, version=version, storage_options=location.options)


@contextmanager
def latest_table(address: str) -> Iterator[DeltaTable]:
    """Return a table at its latest version, for this block: no other thread gets it before the block ends.

    The caller must not keep the table, since it is advanced at the next use; a dataset made from it stays as it is. To
    keep a version, use `open_table`.
    """
    with table_and_values(address) as (table, _):
        yield table


@contextmanager
def table_and_values(address: str) -> Iterator[tuple[DeltaTable, dict[str, Any]]]:
    """Return a table as `latest_table` does, and a dict for what the caller makes of this version of the table.

    The next use has the same dict if the version is the same.
    """
    kept = _entry(address)
    with kept.lock:
        with translate_delta_errors(address):
            table = kept.advance()
        kept.table, version = None, table.version()  # if the block fails, the next use opens the table
        yield table, kept.values
        if table.version() != version:
            kept.values = {}
        kept.keep(table)


def kept_rows(address: str) -> KeptRows:
    """Return the rows of small files of a table that are kept."""
    return _entry(address).rows


def keep_rows(address: str, rows: KeptRows) -> None:
    """Keep rows of small files of a table instead of those that were kept; drop those of other tables if need be."""
    kept, rows_bytes = _entry(address), sum(table.nbytes for table in rows.values())
    with _lock:
        kept.rows, kept.rows_bytes = rows, rows_bytes
        tables = [*(one for one in _kept.values() if one is not kept), kept]
        total = sum(one.rows_bytes for one in tables)
        for one in tables:
            if total <= KEPT_BYTES:
                break
            total -= one.rows_bytes
            one.rows, one.rows_bytes = {}, 0


def _entry(address: str) -> _Kept:
    with _lock:
        if address not in _kept:
            if len(_kept) >= MAX_TABLES:
                del _kept[next(iter(_kept))]
            _kept[address] = _Kept(address, storage_of(address))
        return _kept[address]


@contextmanager
def translate_delta_errors(address: str) -> Iterator[None]:
    """Raise errors of delta-rs in a remote storage as RetryableError, with masked URLs.

    The error has only the first line: the others quote the store.
    TableNotFoundError passes through: it is no error of the storage.
    """
    try:
        yield
    except TableNotFoundError:
        raise
    except (DeltaError, OSError) as error:
        if not storage_of(address).is_remote:
            raise
        first = mask_urls(next(iter(str(error).splitlines()), "").strip())
        raise RetryableError(f"{address}: {type(error).__name__}: {first}", "run this again") from None


os.register_at_fork(after_in_child=_kept.clear)
