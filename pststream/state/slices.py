"""What a task reads: slices of data files, a row group at least, gathered until they are worth a task."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pststream.state.data_files import DataFile
from pststream.state.tables import select_columns
from pststream.storage.parquet_files import open_parquet

SLICE_ROWS = 250_000
"""About as many rows make a task; fewer only where a table has no more."""

TASK_FILES = 64
BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Slice:
    """The row groups of a file that begin at a row in [first, stop)."""

    path: str
    first: int
    stop: int


@dataclass(frozen=True)
class KeyRange:
    """Rows whose `column` (an ascending key) is above `after` and at most `up_to`."""

    column: str
    after: int
    up_to: int

    def files(self, files: Iterable[DataFile]) -> list[DataFile]:
        """The files that may hold such rows."""
        return [file for file in files if file.may_hold(self.column, self.after + 1, self.up_to)]


def tasks_of(files: Iterable[tuple[str, int]], rows: int = SLICE_ROWS) -> list[tuple[Slice, ...]]:
    """Files (path, rows) as tasks of about `rows` rows; each row group is in one slice of one task."""
    tasks: list[tuple[Slice, ...]] = []
    held: list[Slice] = []
    held_rows = 0
    for path, count in files:
        for first in range(0, max(count, 1), rows):
            held.append(Slice(path, first, first + rows))
            held_rows += min(rows, count - first)
            if held_rows >= rows or len(held) >= TASK_FILES:
                tasks.append(tuple(held))
                held, held_rows = [], 0
    return [*tasks, tuple(held)] if held else tasks


def read_slices(slices: Iterable[Slice], columns: list[str], rows: KeyRange | None = None) -> Iterator[pa.RecordBatch]:
    """Columns of the slices' rows, at most BATCH_ROWS at a time; of all rows, or of those in a range.

    A column that a file of an older home lacks (tables.ADDED_COLUMNS) is null.
    """
    for part in slices:
        with open_parquet(part.path) as file:
            groups = _groups(file.metadata, part, rows)
            if not groups:
                continue
            stored = set(file.schema_arrow.names)
            there = [name for name in columns if name in stored]
            for batch in file.iter_batches(BATCH_ROWS, groups, there, use_threads=False):
                complete = batch if len(there) == len(columns) else select_columns(batch, columns)
                yield complete if rows is None else _within(complete, rows)


def _groups(found: pq.FileMetaData, part: Slice, rows: KeyRange | None) -> list[int]:
    begin = 0
    groups = []
    for group in range(found.num_row_groups):
        if part.first <= begin < part.stop and (rows is None or _may_hold(found.row_group(group), rows)):
            groups.append(group)
        begin += found.row_group(group).num_rows
    return groups


def _may_hold(group: pq.RowGroupMetaData, rows: KeyRange) -> bool:
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema == rows.column and column.statistics is not None and column.statistics.has_min_max:
            return bool(column.statistics.min <= rows.up_to and column.statistics.max > rows.after)
    return True


def _within(batch: pa.RecordBatch, rows: KeyRange) -> pa.RecordBatch:
    values = batch.column(rows.column)
    inside = pc.and_(pc.greater(values, rows.after), pc.less_equal(values, rows.up_to))
    return batch if pc.all(inside).as_py() else batch.filter(inside)
