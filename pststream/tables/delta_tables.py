"""Read Delta tables with delta-rs (no JVM).

`read_table`, `greatest_value` and their like read the latest version of one table. A `TableReader` reads the tables of
a home, each at the version of its first read: whole, some rows at a time, or by data file. Tasks, which get the
addresses of data files from the driver, read row groups of them (`state/slices.py`).
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.fs import FileSystem, SubTreeFileSystem

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.errors import PstError
from pststream.base.texts import mask_urls
from pststream.storage.registry import local_path, storage_of
from pststream.tables import open_tables
from pststream.tables.open_tables import latest_table, open_table, table_and_values
from pststream.tables.table_files import attributes_as_json

T = TypeVar("T")

BATCH_ROWS = 32_768

SMALL_BYTES = 64 * 1024
"""Rows of data files up to this size are kept in memory."""

_FAULTS = (DeltaError, OSError, pa.ArrowException, PstError, ValueError, KeyError)


def open_dataset(table: DeltaTable) -> pds.Dataset:
    """Return a table as a dataset whose filters skip files by their statistics.

    The dataset uses Arrow's own file system. The one of delta-rs is written in Python: Arrow's threads need the
    interpreter to close its files, and a process that ends at that moment is aborted (a third of short ones on a busy
    machine).
    """
    return table.to_pyarrow_dataset(filesystem=_file_system(table.table_uri), schema=_schema(table))


def _file_system(uri: str) -> SubTreeFileSystem:
    if names.storage_prefix(uri):
        system, path = storage_of(uri).file_system(unquote(uri).rstrip("/"))
    else:
        system, path = FileSystem.from_uri(uri)
    return SubTreeFileSystem(path, system)


def _schema(table: DeltaTable) -> pa.Schema:
    # NOT NULL is a promise of the log; files, and the tables made of their rows, have columns without it.
    return pa.schema([pa.field(f.name, f.type) for f in pa.schema(table.schema().to_arrow())])


def latest_dataset(address: str) -> pds.Dataset:
    """Return the latest version of a table as a dataset."""
    with latest_table(address) as table:
        return open_dataset(table)


def read_table(address: str, columns: list[str] | None = None, filter: pds.Expression | None = None) -> pa.Table:
    """Return the rows of a table that pass the filter; `columns`: only these; None: all.

    The rows of small files are kept in memory from one read to the next: reading a file takes about a millisecond,
    however small it is, and a ledger has many, which a command reads several times. They cannot be out of date: a data
    file never changes, its name has a random part and is used once, and a compaction or an erasure writes files with
    new names. Only those that the latest version lists are used.

    What a process that has read a file can miss is damage. A local file is read again if its size or its time of change
    differs, and a missing one is an error. In a bucket that would take a request for each file and read, so a file that
    has vanished there, or was overwritten by another program, goes unnoticed until the process ends or drops the rows;
    it works with the rows that were committed. A process that has not read the file, such as each `check`, reports it.
    """
    with table_and_values(address) as (table, values):
        if "small files" not in values:
            values["small files"] = _small_files(table)
        small: _SmallFiles | None = values["small files"]
        data: pds.Dataset = None if small is not None else open_dataset(table)
    if small is None:
        return data.to_table(columns=columns, filter=filter)
    rows = pa.concat_tables([small.schema.empty_table(), *_rows_of(address, small)])
    if filter is not None:
        rows = rows.combine_chunks().filter(filter)  # in one chunk, as each chunk of a table costs 0.05 ms
    return rows if columns is None else rows.select(columns)


class _SmallFiles(NamedTuple):
    """The data files of a version of a table whose rows are kept: their paths below its folder."""

    uri: str
    schema: pa.Schema
    paths: list[str]


def _small_files(table: DeltaTable) -> _SmallFiles | None:
    """Return the data files of a table; None if their rows are not kept.

    They are not kept if a file is large or belongs to another home, if the files together take more than an eighth of
    KEPT_BYTES, or if a row needs more than its file (partition values, deletion vectors, column mapping).
    """
    if table.metadata().partition_columns or table.protocol().min_reader_version > 1:
        return None
    actions = pa.table(table.get_add_actions())
    paths, sizes = (actions.column(name).to_pylist() for name in ("path", "size_bytes"))
    if max(sizes, default=0) > SMALL_BYTES or sum(sizes) > open_tables.KEPT_BYTES // 8:
        return None
    if any(path.startswith("/") or names.storage_prefix(path) for path in paths):
        return None
    return _SmallFiles(table.table_uri, _schema(table), paths)


def _rows_of(address: str, small: _SmallFiles) -> list[pa.Table]:
    """Return the rows of each file, null in columns that the file lacks. FileNotFoundError: a local one is missing."""
    folder, kept = local_path(address), open_tables.kept_rows(address)
    files = [(path, None if folder is None else open_tables.stamp_of_file(folder / path)) for path in small.paths]
    new = [file for file in files if file not in kept or not kept[file].schema.equals(small.schema)]
    if new:
        system, format = _file_system(small.uri), pds.ParquetFileFormat()
        kept = kept | {file: format.make_fragment(file[0], system).to_table(schema=small.schema) for file in new}
        open_tables.keep_rows(address, {file: kept[file] for file in files})
    return [kept[file] for file in files]


def table_version(address: str) -> int:
    """Return the Delta version of a table."""
    with latest_table(address) as table:
        return table.version()


def last_transaction(address: str, application: str) -> int:
    """Return the greatest transaction id that `application` committed to the table; -1 if there is none."""
    with latest_table(address) as table:
        transaction = table.transaction_version(application)
    return -1 if transaction is None else int(transaction)


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


class AnyHome(Protocol):
    """The part of a home that readers use; `state.home.Home` and HomeFolder have it."""

    path: str

    def table(self, name: str) -> str:
        """Path of a table."""


@dataclass
class HomeFolder:
    """A home given by its path alone, which may not exist."""

    path: str

    def table(self, name: str) -> str:
        """Path of a table."""
        return f"{self.path.rstrip('/')}/tables/{name}"


class TableReader:
    """Reads the tables of a home, each at the version of its first read.

    To read two tables that agree, read the table that is written last first: the ledger of batches, then `matches`.

    tolerant  `rows`, `batches`, `first_batches` and `count` take a table that is missing or cannot be read as empty
    problems  a sentence for each table that exists and that a tolerant reader could not read
    """

    def __init__(self, home: AnyHome, tolerant: bool = False) -> None:
        self.home = home
        self.tolerant = tolerant
        self.problems: list[str] = []
        self._broken: set[str] = set()
        self._tables: dict[str, DeltaTable] = {}
        self._datasets: dict[str, pds.Dataset] = {}

    @property
    def strict(self) -> "TableReader":
        """A reader of the same tables at the same versions that raises all errors."""
        strict = copy(self)
        strict.tolerant = False
        return strict

    def table(self, name: str) -> DeltaTable:
        """The Delta table."""
        if name not in self._tables:
            self._tables[name] = open_table(self.home.table(name))
        return self._tables[name]

    def dataset(self, name: str) -> pds.Dataset:
        """The table as a dataset, whose filters skip files by their statistics."""
        if self.tolerant and name in self._broken:
            raise TableNotFoundError(f"{name} could not be read before")
        if name not in self._datasets:
            self._datasets[name] = open_dataset(self.table(name))
        return self._datasets[name]

    def read(self, name: str, columns: Sequence[str], filter: pds.Expression | None = None) -> pa.Table:
        """Read all rows that pass the filter into memory: for ledgers, and for filters that few rows pass."""
        return self.dataset(name).to_table(columns=list(columns), filter=filter)

    def rows(
        self, name: str, columns: Sequence[str], filter: pds.Expression | None = None, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Read the rows that pass the filter as dicts, at most `limit`."""
        if limit is None:
            return self.tolerate(name, lambda: self.read(name, columns, filter).to_pylist(), [])
        rows: list[dict[str, Any]] = []
        for batch in self.batches(name, columns, filter):
            rows += batch.slice(0, limit - len(rows)).to_pylist()
            if len(rows) >= limit:
                break
        return rows

    def count(self, name: str, filter: pds.Expression | None = None) -> int:
        """Count the rows that pass the filter."""
        return self.tolerate(name, lambda: int(self.dataset(name).count_rows(filter=filter)), 0)

    def attributes(self, keys: np.ndarray) -> pa.Array:
        """Return the attributes of objects (int64[n], in any order) as JSON (large_string[n]); null if one has none."""
        given = self.read(names.FILES, ["file_seq"], pds.field("attributed") > 0).column(0).to_numpy()
        wanted = distinct_values(keys[np.isin(keys >> 32, given)])
        if not len(wanted):
            return pa.nulls(len(keys), pa.large_string())
        key = pds.field("object_key")
        within = (key >= wanted[0]) & (key <= wanted[-1]) & key.isin(wanted) & pds.field("attributes").is_valid()
        rows = self.read(names.OBJECTS, ["object_key", "attributes"], within).combine_chunks()
        column = rows.column("attributes")
        texts = attributes_as_json(column.chunk(0)) if rows.num_rows else pa.array([], pa.large_string())
        return texts.take(pc.index_in(pa.array(keys), rows.column("object_key").combine_chunks()))

    def batches(
        self, name: str, columns: Sequence[str], filter: pds.Expression | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that pass the filter, some at a time, in no order."""
        with self._tolerating(name):
            for batch in self.dataset(name).to_batches(columns=list(columns), filter=filter, batch_size=rows):
                if batch.num_rows:
                    yield batch

    def first_batches(self, name: str, columns: Sequence[str], count: int) -> Iterator[pa.RecordBatch]:
        """Yield the first rows of at most `count` data files, evenly chosen: a sample of a table of any size."""
        with self._tolerating(name):
            files = list(self.dataset(name).get_fragments())
            step = max(len(files) / count, 1.0)
            for i in range(min(count, len(files))):
                yield from itertools.islice(self.batches_of(name, files[int(i * step)], columns), 1)

    def files(
        self, name: str, order: str, filter: pds.Expression | None = None, greatest: bool = False
    ) -> list[tuple[int, pds.Fragment]]:
        """List the data files that may contain rows that pass, ordered by the least value of an integer column.

        With `greatest`, ordered by the greatest value, descending. A file without statistics may contain any value and
        comes first.
        """
        actions = pa.table(self.table(name).get_add_actions(flatten=True))
        column = f"max.{order}" if greatest else f"min.{order}"
        values = actions.column(column).to_pylist() if column in actions.column_names else []
        known = dict(zip(actions.column("path").to_pylist(), values))
        unknown = names.MAX_INT64 if greatest else names.MIN_INT64
        files = [(known.get(file.path), file) for file in self.dataset(name).get_fragments(filter=filter)]
        ordered = [(unknown if value is None else int(value), file) for value, file in files]
        return sorted(ordered, key=lambda item: (-item[0] if greatest else item[0], item[1].path))

    def batches_of(
        self,
        name: str,
        file: pds.Fragment,
        columns: Sequence[str],
        filter: pds.Expression | None = None,
        rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one data file that pass the filter, some at a time, in their order in the file."""
        schema = self.dataset(name).schema
        batches = file.to_batches(
            schema=schema, columns=list(columns), filter=filter, batch_size=rows, batch_readahead=2
        )
        yield from (batch for batch in batches if batch.num_rows)

    def tolerate(self, name: str, read: Callable[[], T], otherwise: T) -> T:
        """The result of `read`, which reads the table `name`.

        In a tolerant reader it is `otherwise` if the table is missing or cannot be read.
        """
        result = otherwise
        with self._tolerating(name):
            self.dataset(name)
            result = read()
        return result

    @contextmanager
    def _tolerating(self, name: str) -> Iterator[None]:
        """End a block that reads the table `name` at an error, if the reader is tolerant."""
        try:
            yield
        except TableNotFoundError:
            if not self.tolerant:
                raise
        except _FAULTS as error:
            if not self.tolerant:
                raise
            self._broken.add(name)
            first = (mask_urls(str(error)).splitlines() or [type(error).__name__])[0]
            self.problems.append(f"Table {name} cannot be read: {first[:200]}")
