"""Write Parquet files of Delta tables in tasks, and add and remove files by one commit on the driver.

A task writes Parquet from Arrow and returns a DataFile. The driver collects these and adds them to the log in one
commit. Readers do not see a file before its commit, so a task may fail and run again; `maintain` removes the files of
failed tasks. The log has bounds of some columns of each file (`tables.has_bounds`), by which readers skip files.
"""

import json
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from pststream.base import names
from pststream.base.errors import RetryableError, UsageError
from pststream.base.utc_times import from_micros, iso, to_micros, utc_now
from pststream.state.delta_log import APPEND_ONLY
from pststream.state.home import Home
from pststream.state.log_entries import VersionTaken, commit_entry, describe_writer, metadata_action
from pststream.state.tables import TABLES, has_bounds
from pststream.storage.parquet_files import delete_files, encoding_options, file_sizes, flush_content, flush_names
from pststream.storage.registry import storage_of
from pststream.tables.open_tables import latest_table, open_table, table_and_values

ROW_GROUP = 131_072
"""Rows of a row group, the smallest unit that a task reads."""

BUFFERED_BYTES = 64 * 1024 * 1024
"""A row group ends early if its rows take more memory than this."""

COMMIT_TRIES = 100

MAX_BOUND_LENGTH = 64
"""Longer texts are cut in the bounds of a file, so that entries of the log stay short."""

SHARED = "keep home and landing folder in a bucket, or on a file system that all nodes mount (docs/where-it-runs.md)"


@dataclass(frozen=True)
class DataFile:
    """A data file: path below the folder of its table, sizes, partition values, bounds of columns.

    The path of a file that belongs to another home is its address (`add_references`).
    Bounds of times are microseconds since 1970, rounded outwards to milliseconds, as Delta stores them.
    """

    path: str
    bytes: int
    rows: int
    partition: Mapping[str, Any] = field(default_factory=dict)
    low: Mapping[str, Any] = field(default_factory=dict)
    high: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)

    def may_contain(self, column: str, least: int, greatest: int) -> bool:
        """Whether a row may have a value of `column` in [least, greatest]; true if no bound is known."""
        return self.low.get(column, least) <= greatest and self.high.get(column, greatest) >= least


class DataFiles:
    """Data files of a table as Arrow columns, in the order of their paths: a table may have a million of them.

    A DataFile is made when it is asked for. `columns` are path, size_bytes, num_records and, of each column of the
    table that has them, `partition.NAME`, `min.NAME`, `max.NAME` and `null_count.NAME`.
    """

    def __init__(self, columns: pa.Table) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def __iter__(self) -> Iterator[DataFile]:
        paths, sizes, rows = (self.columns.column(name).to_pylist() for name in ("path", "size_bytes", "num_records"))
        low, high = _bounds_by_file(self.columns, "min."), _bounds_by_file(self.columns, "max.", down=False)
        nulls = _bounds_by_file(self.columns, "null_count.")
        return map(DataFile, paths, sizes, rows, _partitions(self.columns), low, high, nulls)

    def select(self, chosen: np.ndarray | pa.Array) -> "DataFiles":
        """Return those of the files that are chosen: bool[files]."""
        return DataFiles(self.columns.filter(pa.array(chosen)))

    def may_contain(self, column: str, least: int, greatest: int) -> np.ndarray:
        """Return which files may have a row with a value of `column` in [least, greatest]: bool[files]."""
        low, high = self.bound(f"min.{column}", names.MIN_INT64), self.bound(f"max.{column}", names.MAX_INT64)
        return np.asarray((low <= greatest) & (high >= least))

    def has_values(self, column: str) -> bool:
        """Whether a file has bounds of a column."""
        name = f"min.{column}"
        return name in self.columns.column_names and self.columns.column(name).null_count < len(self)

    def partition(self, column: str) -> np.ndarray:
        """Return the values of a partition column of whole numbers: int64[files]."""
        return np.asarray(self.columns.column(f"partition.{column}"))

    def bound(self, name: str, unknown: int) -> np.ndarray:
        """Return a bound of each file as DataFile has it, `unknown` where there is none: int64[files]."""
        if name not in self.columns.column_names:
            return np.full(len(self), unknown)
        values = self.columns.column(name)
        known = values.cast(pa.int64()).fill_null(0).to_numpy()
        if pa.types.is_timestamp(values.type):
            known = known - known % 1000 if name.startswith("min.") else known + -known % 1000
        return np.where(values.is_valid(), known, unknown) if values.null_count else known


class FileWriter:
    """Writes rows of one schema to a new Parquet file below `root`; without rows there is no file.

    row_group: rows of a row group
    """

    def __init__(
        self, root: str, schema: pa.Schema, partition: Mapping[str, Any] | None = None, row_group: int = ROW_GROUP
    ) -> None:
        self.partition = dict(partition or {})
        self.schema = pa.schema([f for f in schema if f.name not in self.partition])
        folder = "".join(f"{name}={value}/" for name, value in self.partition.items())
        self.path = f"{folder}part-{uuid.uuid4().hex}.parquet"
        self.address = f"{root}/{self.path}"
        self._row_group = row_group
        self._writer: pq.ParquetWriter | None = None
        self._buffered: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._written: list[pq.FileMetaData] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows; columns in any order, partition columns ignored."""
        if rows.num_rows == 0:
            return
        self._buffered.append(rows.select(self.schema.names).cast(self.schema))
        self._rows += rows.num_rows
        self._bytes += self._buffered[-1].nbytes
        if self._rows >= ROW_GROUP or self._bytes > BUFFERED_BYTES:
            self._flush()

    def close(self) -> DataFile | None:
        """Finish the file, flush it to disk and return it; None if there were no rows."""
        self._flush()
        if self._writer is None:
            return None
        self._writer.close()
        flush_content(self.address)
        (metadata,), (size,) = self._written, file_sizes([self.address])
        return DataFile(self.path, size or 0, metadata.num_rows, self.partition, *_bounds(metadata, self.schema))

    def _flush(self) -> None:
        if not self._buffered:
            return
        if self._writer is None:
            self._writer = self._open()
        self._writer.write_table(pa.Table.from_batches(self._buffered), row_group_size=self._row_group)
        self._buffered, self._rows, self._bytes = [], 0, 0

    def _open(self) -> pq.ParquetWriter:
        system, path = storage_of(self.address).new_file(self.address)
        options = {"compression": "zstd", "compression_level": 1, "metadata_collector": self._written}
        return pq.ParquetWriter(path, self.schema, filesystem=system, **options, **encoding_options(self.schema))


def _bounds(metadata: pq.FileMetaData, schema: pa.Schema) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """Return the least value, the greatest value and the number of nulls of each column that has bounds."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).path
        if name not in schema.names or not has_bounds(schema.field(name)):
            continue
        parts = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
        kept = [part for part in parts if part is not None and part.has_min_max]
        if all(part is not None and (part.has_min_max or part.num_values == 0) for part in parts):
            nulls[name] = sum(part.null_count for part in parts)
        if kept and name in nulls:
            low[name] = min(_bound(part.min, down=True) for part in kept)
            high[name] = max(_bound(part.max, down=False) for part in kept)
    return low, high, nulls


def _bound(value: Any, down: bool) -> Any:
    """Return a bound as DataFile has it: a time in microseconds rounded to milliseconds, a long text cut."""
    if isinstance(value, str):
        return _cut_text(value, down)
    if not isinstance(value, datetime):
        return value
    micros = to_micros(value)
    return micros // 1000 * 1000 if down else -(-micros // 1000) * 1000


def _cut_text(text: str, down: bool) -> str:
    """Return a text of about MAX_BOUND_LENGTH characters that is not greater, or not less, than the given one."""
    cut = MAX_BOUND_LENGTH
    if len(text) <= cut or down:
        return text[:cut]
    while text[cut : cut + 1] == chr(sys.maxunicode):
        cut += 1
    return text[:cut] + chr(sys.maxunicode) if cut < len(text) else text


def list_data_files(home: Home, name: str, version: int | None = None) -> DataFiles:
    """Return the files of a table. Raises UsageError for a version that the log does not have."""
    with table_and_values(home.table(name)) as (latest, values):
        if version is not None:
            return _files_of(_earlier(home, name, version, latest.version()))
        if "files" not in values:  # the steps of a batch ask for the same ones
            values["files"] = _files_of(latest)
        files: DataFiles = values["files"]
        return files


def _files_of(table: DeltaTable) -> DataFiles:
    actions = pa.table(table.get_add_actions(flatten=True)).drop_columns("modification_time").combine_chunks()
    paths = actions.column("path")
    if any(pc.any(pc.starts_with(paths, prefix)).as_py() for prefix in ("/", *names.STORAGES, *names.OTHER_PREFIXES)):
        # delta-rs quotes the addresses it returns
        paths = pa.array([unquote(path) if _is_address(path) else path for path in paths.to_pylist()], pa.string())
    actions = actions.set_column(actions.schema.get_field_index("path"), "path", paths)
    rows = actions.schema.get_field_index("num_records")
    actions = actions.set_column(rows, "num_records", pc.fill_null(actions.column("num_records"), 0))
    return DataFiles(actions.take(pc.sort_indices(actions.column("path"))))


def _lists_all(table: DeltaTable, files: Iterable[DataFile]) -> bool:
    paths = pa.array([file.path for file in files], pa.string())
    return bool(pc.all(pc.is_in(paths, _files_of(table).columns.column("path"))).as_py())


def _earlier(home: Home, name: str, version: int, newest: int) -> DeltaTable:
    """Open a table at an earlier version."""
    try:
        if version <= newest:
            return open_table(home.table(name), version)
    except (DeltaError, RetryableError):
        pass
    hint = "docs/operation.md says how long versions are kept"
    raise UsageError(f"version {version} of {name} does not exist, or no longer; the newest is {newest}", hint)


def addresses_and_rows(home: Home, name: str, files: Iterable[DataFile]) -> list[tuple[str, int]]:
    """Return address and number of rows of each file, as `state.slices.split_into_tasks` takes them."""
    return [(_address(home, name, file), file.rows) for file in files]


def _address(home: Home, name: str, file: DataFile) -> str:
    return file.path if _is_address(file.path) else f"{home.table(name)}/{file.path}"


def _is_address(path: str) -> bool:
    return path.startswith("/") or names.storage_prefix(path) != ""


def _bounds_by_file(actions: pa.Table, prefix: str, down: bool = True) -> list[dict[str, Any]]:
    """Return for each file the values of the columns with this prefix, by the rest of their names; nulls are left out.

    Values are numbers, texts and times, as DataFile has them.
    """
    files: list[dict[str, Any]] = [{} for _ in range(actions.num_rows)]
    for column in actions.column_names:
        if column.startswith(prefix):
            name = column.removeprefix(prefix)
            for file, value in zip(files, actions.column(column).to_pylist()):
                if type(value) in (int, float, str, datetime):
                    file[name] = _bound(value, down)
    return files


def _partitions(actions: pa.Table) -> list[dict[str, Any]]:
    """Return for each file the values of the partition columns, which may be null."""
    prefix = "partition."
    columns = [name for name in actions.column_names if name.startswith(prefix)]
    return actions.select(columns).rename_columns([name.removeprefix(prefix) for name in columns]).to_pylist()


def commit_files(
    home: Home,
    name: str,
    added: Iterable[DataFile],
    removed: Iterable[DataFile] = (),
    *,
    application: str,
    transaction: int,
    rows_change: bool = True,
    edited: int | None = None,
    is_blind: bool = False,
) -> bool:
    """Add and remove files in one commit, unless this transaction is committed already; return whether it commits.

    A commit that removes rows of an append-only table takes that property from it, which `state.erasures` restores.

    rows_change: false if the added files have exactly the rows of the removed ones
    edited: how many rows of the added files are not as the removed files have them; None: the rows are others
    is_blind: whether nothing of the table was read to make the rows

    If the transaction is committed already, the added files that the table does not list are deleted: it has their
    rows. Raises RetryableError if the driver does not see a file or sees it with another size: then the node that wrote
    it has another disk under that path; also if another process has removed one of the files. This commit comes after
    other commits that are made meanwhile.
    """
    added, removed, root = list(added), list(removed), home.table(name)
    addresses = [f"{root}/{file.path}" for file in added]
    operation, info = _describe(added, removed, rows_change, edited)
    info |= {"isBlindAppend": is_blind, **_writer_of(added, application)}
    own = Transaction(application, transaction)
    for tries_left in reversed(range(COMMIT_TRIES)):
        try:
            with latest_table(root) as table:
                before = table.transaction_version(application)
                if before is not None and before >= transaction:
                    own_files = {f"{root}/{path}" for path in _files_of(table).columns.column("path").to_pylist()}
                    break
                for address, file, size in zip(addresses, added, file_sizes(addresses)):
                    if size != file.bytes:
                        raise RetryableError(
                            f"{address}: a task wrote this file, but the driver does not see it", SHARED
                        )
                # A commit that removes a file which the table has lost would bring its rows back.
                if removed and not _lists_all(table, removed):
                    raise RetryableError(f"{root}: another process has replaced files of this table", "run this again")
                flush_names(addresses)
                actions = [*removals(removed, rows_change), *additions(name, added, rows_change)]
                properties = table.metadata().configuration
                if removed and rows_change and properties.get(APPEND_ONLY) == "true":
                    actions.insert(0, metadata_action(table, {k: v for k, v in properties.items() if k != APPEND_ONLY}))
                commit_entry(home, name, table, operation, actions, [own], info)
                return True
        except VersionTaken:
            if not tries_left:
                raise
    delete_files([address for address in addresses if address not in own_files])
    return False


def append_rows(home: Home, name: str, rows: pa.Table, metadata: Mapping[str, str]) -> None:
    """Append rows, which have the declared columns, as one file in one commit.

    Other processes may append at the same time; this commit then comes after theirs. Raises ValueError for a null in a
    column without nulls, or a table with partitions.
    """
    if TABLES[name].partitions:
        raise ValueError(f"{name} has partitions: write a file for each by `FileWriter`, and commit them together")
    root = home.table(name)
    writer = FileWriter(root, TABLES[name].schema)
    for batch in rows.cast(TABLES[name].delta_schema).combine_chunks().to_batches():
        writer.write(batch)
    file = writer.close()
    flush_names([writer.address] if file else [])
    files = [file] if file else []
    actions, (operation, info) = additions(name, files), _describe(files)
    commit_latest(home, name, operation, lambda _: actions, info | dict(metadata))


def commit_latest(
    home: Home,
    name: str,
    operation: str,
    actions_on: Callable[[DeltaTable], Iterable[Mapping[str, Any]]],
    info: Mapping[str, Any] | None = None,
) -> None:
    """Commit actions on the latest version of a table, whatever other processes commit meanwhile."""
    for tries_left in reversed(range(COMMIT_TRIES)):
        try:
            with latest_table(home.table(name)) as table:
                return commit_entry(home, name, table, operation, actions_on(table), info=info)
        except VersionTaken:
            if not tries_left:
                raise


def add_references(home: Home, name: str, owner: Home, files: Iterable[DataFile]) -> None:
    """Add files of the same table of another home by their addresses: they stay where they are, and nothing is copied.

    Only `list_data_files` and `addresses_and_rows` read such files; maintenance of the table would fail on them.
    """
    added = [replace(file, path=_address(owner, name, file)) for file in files]
    if added:
        operation, info = _describe(added)
        with latest_table(home.table(name)) as table:
            commit_entry(home, name, table, operation, additions(name, added), info=info)


def additions(name: str, files: Iterable[DataFile], rows_change: bool = True) -> list[dict[str, Any]]:
    """Return the actions that add files, as Delta's log has them."""
    now, schema = to_micros(utc_now()) // 1000, TABLES[name].schema
    return [{"add": _listing(f, rows_change) | {"modificationTime": now, "stats": _stats(f, schema)}} for f in files]


def removals(files: Iterable[DataFile], rows_change: bool) -> list[dict[str, Any]]:
    """Return the actions that remove files, as Delta's log has them."""
    more = {"deletionTimestamp": to_micros(utc_now()) // 1000, "extendedFileMetadata": True}
    return [{"remove": _listing(f, rows_change) | more} for f in files]


def _listing(file: DataFile, rows_change: bool) -> dict[str, Any]:
    path, partition = quote(file.path, safe="/:="), {name: str(value) for name, value in file.partition.items()}
    return {"path": path, "size": file.bytes, "partitionValues": partition, "dataChange": rows_change}


def _describe(
    added: Sequence[DataFile], removed: Sequence[DataFile] = (), rows_change: bool = True, edited: int | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the operation of a commit, and its parameters and metrics, by the names of Delta's own writers.

    Removed rows that others replace (`edited` is None) are overwritten. Otherwise rows are deleted, and the others are
    in the added files, copied or edited; Delta's DELETE has no name for edited ones, so theirs is that of its UPDATE.
    """
    rows, size = sum(file.rows for file in added), sum(file.bytes for file in added)
    operation, parameters = "WRITE", {"mode": "Overwrite" if removed else "Append"}
    metrics = {"numFiles": len(added), "numOutputRows": rows, "numOutputBytes": size}
    if not rows_change or (removed and (edited is not None or not added)):
        operation, parameters, metrics = "OPTIMIZE", {}, {"numAddedFiles": len(added), "numAddedBytes": size}
    if rows_change and not parameters:
        operation, deleted, updated = "DELETE", sum(file.rows for file in removed) - rows, edited or 0
        metrics |= {"numDeletedRows": deleted, "numUpdatedRows": updated, "numCopiedRows": rows - updated}
    if removed:
        metrics |= {"numRemovedFiles": len(removed), "numRemovedBytes": sum(file.bytes for file in removed)}
    shown = {key: str(value) for key, value in metrics.items()}
    return operation, {"operationParameters": parameters, "operationMetrics": shown}


def _writer_of(files: Sequence[DataFile], step: str) -> dict[str, str]:
    bounded = set.intersection(*(set(file.low) for file in files)) if files else set()
    bounds = {name: (min(f.low[name] for f in files), max(f.high[name] for f in files)) for name in bounded}
    return describe_writer(bounds, step)


def _stats(file: DataFile, schema: pa.Schema) -> str:
    def shown(bounds: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: str(iso(from_micros(value), "milliseconds"))
            if pa.types.is_timestamp(schema.field(name).type)
            else value
            for name, value in bounds.items()
            if name in schema.names
        }

    bounds = {"minValues": shown(file.low), "maxValues": shown(file.high), "nullCount": dict(file.nulls)}
    # delta-rs misreads escapes of characters beyond the Basic Multilingual Plane.
    return json.dumps({"numRecords": file.rows, **bounds}, ensure_ascii=False)
