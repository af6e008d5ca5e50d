"""Split data files into slices of about 250,000 rows for tasks, and read columns of slices inside a task.

The driver reads tables by `delta_tables`. A task gets the addresses of data files from the driver, so that it need not
read the log, and reads row groups of them, which bounds its memory and its share of the work.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pststream.base import names
from pststream.base.utc_times import to_micros
from pststream.queries.shapes.contract import matched_lon
from pststream.state.data_files import DataFiles
from pststream.storage.parquet_files import open_parquet, without_views

SLICE_ROWS = 250_000
"""About the number of rows that a task reads."""

TASK_FILES = 64
BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Slice:
    """The row groups of a file that begin at a row in [first, stop).

    rows    about how many rows these are, for progress; 0 if that is not known
    """

    path: str
    first: int
    stop: int
    rows: int = field(default=0, compare=False)


def whole_file(path: str, rows: int = 0) -> Slice:
    """Return the slice of all row groups of a file; `rows` as in Slice."""
    return Slice(path, 0, names.MAX_INT64, rows)


@dataclass(frozen=True)
class KeyRange:
    """Rows whose `column` (an ascending key, or a time in microseconds) is above `after` and at most `up_to`."""

    column: str
    after: int
    up_to: int

    def files(self, files: DataFiles) -> DataFiles:
        """Return the files that may have such rows."""
        return files.select(files.may_contain(self.column, self.after + 1, self.up_to))


def split_into_tasks(files: Iterable[tuple[str, int]], rows: int = SLICE_ROWS) -> list[tuple[Slice, ...]]:
    """Split files (path, rows) into tasks of about `rows` rows; each row group is in one slice of one task."""
    tasks: list[tuple[Slice, ...]] = []
    slices: list[Slice] = []
    slice_rows = 0
    for path, count in files:
        for first in range(0, max(count, 1), rows):
            slices.append(Slice(path, first, first + rows, min(rows, count - first)))
            slice_rows += slices[-1].rows
            if slice_rows >= rows or len(slices) >= TASK_FILES:
                tasks.append(tuple(slices))
                slices, slice_rows = [], 0
    return [*tasks, tuple(slices)] if slices else tasks


def rows_of_tasks(tasks: Iterable[Iterable[Slice]]) -> int:
    """Return about how many rows the slices of all tasks have."""
    return sum(one.rows for slices in tasks for one in slices)


def read_slices(slices: Iterable[Slice], columns: list[str], rows: KeyRange | None = None) -> Iterator[pa.RecordBatch]:
    """Yield columns of the rows of slices in batches of at most BATCH_ROWS; `rows`: only rows in this key range.

    A batch is within a row group, which bounds its bytes (`data_files.BUFFERED_BYTES`).
    """
    for one in slices:
        with open_parquet(one.path) as file:
            groups = _row_groups(file.metadata, one, rows)
            for group in groups:
                for batch in file.iter_batches(BATCH_ROWS, [group], columns, use_threads=False):
                    texts = without_views(batch)
                    yield texts if rows is None else _within(texts, rows)


def read_places(slices: Iterable[Slice], columns: list[str], rows: KeyRange) -> Iterator[pa.RecordBatch]:
    """Yield columns of `objects` as `read_slices` does, to route and match: `lon` is the `matched_lon`.

    columns: `lon` and `lat` among them
    """
    for batch in read_slices(slices, columns, rows):
        lon = matched_lon(batch.column("lon").to_numpy(), batch.column("lat").to_numpy())
        yield batch.set_column(columns.index("lon"), batch.schema.field("lon"), pa.array(lon))


def _row_groups(metadata: pq.FileMetaData, one: Slice, rows: KeyRange | None) -> list[int]:
    begin = 0
    groups = []
    for group in range(metadata.num_row_groups):
        if one.first <= begin < one.stop and (rows is None or _may_contain(metadata.row_group(group), rows)):
            groups.append(group)
        begin += metadata.row_group(group).num_rows
    return groups


def _may_contain(group: pq.RowGroupMetaData, rows: KeyRange) -> bool:
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema == rows.column and column.statistics is not None and column.statistics.has_min_max:
            return _number(column.statistics.min) <= rows.up_to and _number(column.statistics.max) > rows.after
    return True


def _number(bound: Any) -> int:
    return to_micros(bound) if isinstance(bound, datetime) else int(bound)


def _within(batch: pa.RecordBatch, rows: KeyRange) -> pa.RecordBatch:
    values = batch.column(rows.column)
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    inside = pc.and_(pc.greater(values, rows.after), pc.less_equal(values, rows.up_to))
    return batch if pc.all(inside).as_py() else batch.filter(inside)
