"""Read Delta tables with delta-rs (no JVM): as datasets, as rows, and the greatest value of a column."""

from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileSystem, SubTreeFileSystem

from pststream import names
from pststream.open_tables import latest_table
from pststream.storage.registry import local_path, storage_of

SMALL_BYTES = 64 * 1024
"""Rows of data files up to this size are kept in memory once they are read."""

KEPT_BYTES = 16 * 1024 * 1024
"""Memory for rows that are kept. Those that were not used for the longest time go first."""


def open_dataset(table: DeltaTable) -> pds.Dataset:
    """Return a table as a dataset whose filters skip files by their statistics.

    The dataset uses Arrow's own file system. The one of delta-rs is written in Python: Arrow's threads need the
    interpreter to close its files, and a process that ends at that moment is aborted (a third of short ones on a busy
    machine).
    """
    system = _file_system(table)
    return table.to_pyarrow_dataset(filesystem=system, schema=_schema(table))


def _file_system(table: DeltaTable) -> SubTreeFileSystem:
    uri = table.table_uri
    if names.storage_prefix(uri):
        system, path = storage_of(uri).file_system(unquote(uri).rstrip("/"))
    else:
        system, path = FileSystem.from_uri(uri)
    return SubTreeFileSystem(path, system)


def _schema(table: DeltaTable) -> pa.Schema:
    # NOT NULL is a promise of the log; files, and the tables made of their rows, have columns without it.
    return pa.schema([pa.field(f.name, f.type) for f in pa.schema(table.schema().to_arrow())])


def read_table(address: str, columns: list[str] | None = None, filter: pds.Expression | None = None) -> pa.Table:
    """Return the rows of a table that pass the filter; `columns`: only these; None: all.

    A ledger has two small files for each batch or ingest until it is compacted, and a command reads it several times.
    A file of a dataset takes a millisecond, so the rows of small files are kept in memory: data files do not change.
    """
    with latest_table(address) as table:
        small = _small_files(address, table)
        if small is None:
            data = open_dataset(table)
        else:
            system, schema = _file_system(table), _schema(table)
    if small is None:
        return data.to_table(columns=columns, filter=filter)
    rows = pa.concat_tables([schema.empty_table(), *(_kept.read(file, system, schema) for file in small)])
    if filter is not None:
        rows = rows.filter(filter)
    return rows if columns is None else rows.select(columns)


class _SmallFile(NamedTuple):
    """A data file below the folder of a table; `stamp`: size and time of the last change in ns, of a local file."""

    address: str
    path: str
    stamp: tuple[int, int] | None


def _small_files(address: str, table: DeltaTable) -> list[_SmallFile] | None:
    """Return the data files of a table; None if some are large or elsewhere, or have not all that readers need."""
    if table.metadata().partition_columns or table.protocol().min_reader_version > 1:
        return None
    actions = pa.table(table.get_add_actions())
    paths, sizes = (actions.column(name).to_pylist() for name in ("path", "size_bytes"))
    if max(sizes, default=0) > SMALL_BYTES or sum(sizes) > KEPT_BYTES // 8:
        return None
    if any(path.startswith("/") or names.storage_prefix(path) for path in paths):
        return None
    folder = local_path(address)
    return [_SmallFile(address, path, None if folder is None else _stamp(folder / path)) for path in paths]


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


class _KeptRows:
    """Rows of small files, those that were used last: KEPT_BYTES in all."""

    def __init__(self) -> None:
        self._lock, self._bytes = Lock(), 0
        self._rows: OrderedDict[_SmallFile, pa.Table] = OrderedDict()

    def read(self, file: _SmallFile, system: SubTreeFileSystem, schema: pa.Schema) -> pa.Table:
        """Return the rows of a file with these columns; those that it lacks are null."""
        with self._lock:
            rows = self._rows.get(file)
            if rows is not None and rows.schema.equals(schema):
                self._rows.move_to_end(file)
                return rows
        rows = pds.ParquetFileFormat().make_fragment(file.path, system).to_table(schema=schema)
        with self._lock:
            before = self._rows.pop(file, None)
            self._rows[file] = rows
            self._bytes += rows.nbytes - (0 if before is None else before.nbytes)
            while self._bytes > KEPT_BYTES:
                self._bytes -= self._rows.popitem(last=False)[1].nbytes
        return rows


_kept = _KeptRows()


def describe_snapshot(address: str) -> str:
    """Return a text that differs between tables, also between two at one address, and between versions of a table."""
    with latest_table(address) as table:
        return f"{table.metadata().id}@{table.version()}"


class QueryError(Exception):
    """A query that is not SQL, or not about the columns of its table."""


def query_table(address: str, name: str, query: str) -> pa.Table:
    """Return the result of an SQL query on one table, which the query calls `name`. Raises QueryError."""
    with latest_table(address) as table:
        try:
            return pa.table(QueryBuilder().register(name, table).execute(query).read_all())
        except DeltaError as error:
            raise QueryError(str(error).splitlines()[0]) from None


def greatest_value(address: str, column: str) -> int:
    """Return the greatest value of a column of whole numbers; 0 if the table has no rows.

    It comes from the statistics in the log, unless another program rewrote files without them.
    """
    with latest_table(address) as table:
        statistics = pa.table(table.get_add_actions(flatten=True))
    name = f"max.{column}"
    if name in statistics.column_names and not statistics.column(name).null_count:
        return int(pc.max(statistics.column(name)).as_py() or 0)
    return int(pc.max(read_table(address, [column]).column(0)).as_py() or 0)
