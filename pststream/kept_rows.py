"""Keep the rows of small data files in memory: a ledger has many of them, and a command reads it several times.

Reading a data file takes about a millisecond, however small it is. The rows of a file are kept under its address, and a
later read of the same file returns them. They cannot be out of date: a data file never changes, its name has a random
part and is used once, and a compaction or an erasure writes files with new names. `read_table` asks for the files that
the latest version of the table lists and for no others.

What a process that has read a file can miss is damage. A local file is read again if its size or its time of change
differs, and a missing one is an error. In a bucket that would take a request for each file and read, so a file that has
vanished there, or was overwritten by another program, goes unnoticed until the process ends or drops the rows; it works
with the rows that were committed. A process that has not read the file, such as each `check`, reports it.
"""

from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as pds
from deltalake import DeltaTable
from pyarrow.fs import FileSystem

from pststream import names
from pststream.storage.registry import local_path

SMALL_BYTES = 64 * 1024
"""Rows of data files up to this size are kept."""

KEPT_BYTES = 16 * 1024 * 1024
"""Memory for all rows that are kept. Those that were not used for the longest time are dropped first."""


class SmallFile(NamedTuple):
    """A small data file of a table.

    address  address of the table
    path     path below the folder of the table
    stamp    of a local file: its size in bytes, and the time of its last change in ns; None: the file is in a bucket
    """

    address: str
    path: str
    stamp: tuple[int, int] | None


def small_files(address: str, table: DeltaTable) -> list[SmallFile] | None:
    """Return the data files of the table at `address`; None if their rows are not kept.

    They are not kept if a file is large or belongs to another home, if the files together take more than an eighth of
    KEPT_BYTES, or if a row needs more than its file (partition values, deletion vectors, column mapping). Raises
    FileNotFoundError if a local file is missing.
    """
    if table.metadata().partition_columns or table.protocol().min_reader_version > 1:
        return None
    actions = pa.table(table.get_add_actions())
    paths, sizes = (actions.column(name).to_pylist() for name in ("path", "size_bytes"))
    if max(sizes, default=0) > SMALL_BYTES or sum(sizes) > KEPT_BYTES // 8:
        return None
    if any(path.startswith("/") or names.storage_prefix(path) for path in paths):
        return None
    folder = local_path(address)
    return [SmallFile(address, path, None if folder is None else _stamp(folder / path)) for path in paths]


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


class _KeptRows:
    """Rows of the small files that were used last, of KEPT_BYTES in all. Threads may share it."""

    def __init__(self) -> None:
        self._lock, self._bytes = Lock(), 0
        self._rows: OrderedDict[SmallFile, pa.Table] = OrderedDict()

    def get(self, file: SmallFile, schema: pa.Schema) -> pa.Table | None:
        """Return the rows of a file if they are kept with this schema."""
        with self._lock:
            rows = self._rows.get(file)
            if rows is None or not rows.schema.equals(schema):
                return None
            self._rows.move_to_end(file)
            return rows

    def put(self, file: SmallFile, rows: pa.Table) -> None:
        """Keep the rows of a file, and drop those that were used before all others while there are too many."""
        with self._lock:
            before = self._rows.pop(file, None)
            self._rows[file] = rows
            self._bytes += rows.nbytes - (0 if before is None else before.nbytes)
            while self._bytes > KEPT_BYTES:
                self._bytes -= self._rows.popitem(last=False)[1].nbytes


_kept = _KeptRows()


def read_small_file(file: SmallFile, system: FileSystem, schema: pa.Schema) -> pa.Table:
    """Return the rows of a file, from memory if they are kept.

    system: a file system whose root is the folder of the table
    """
    rows = _kept.get(file, schema)
    if rows is None:
        rows = pds.ParquetFileFormat().make_fragment(file.path, system).to_table(schema=schema)
        _kept.put(file, rows)
    return rows
