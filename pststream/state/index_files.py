"""List the data files of the worker index with the plan that serves each, and group them into segments.

While two plans are active, a file has subscriptions of only one of the two: all subscriptions of the older plan were in
the index before the newer plan came into force, and later writers keep the plans apart.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import look_up
from pststream.base.errors import PstError
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, DataFiles, list_data_files
from pststream.state.home import Home
from pststream.state.plans import Retiring, find_plan_row, numbers_in_index, retiring_plan
from pststream.state.slices import SLICE_ROWS

NO_WORKER = -2
"""Worker of the files of a number that the plan does not use: those of workers that a smaller plan has given up."""

SMALL_BYTES = 8 * 1024 * 1024
"""Smaller files are compacted by `match` and `maintain`, and until then built into common segments."""

SIMILAR_ROWS = 1.5
"""Ratio of rows up to which two files count as similar in size. The requests of a batch spread over workers by chance,
so at a ratio of 1 each worker would rebuild segments in a different batch, and look unbalanced in it."""


SEGMENT_ROWS = 1_000_000
"""Greatest number of rows of an index file and of a segment. A piece covers at most 4 index cells, and a clause has at
most 512 words (queries/text/expression.py), so a segment has fewer postings than the 2^31 that it can number."""


def migration_application(index_version: int) -> str:
    """Return the application id of the commits by which migrations add pieces to an index."""
    return f"migrate-{index_version}"


@dataclass(frozen=True)
class IndexFile:
    """A data file: its path, the worker that its rows belong to, its size, its greatest subscription key.

    plan_version: the plan under which the worker serves its rows. The rows of names.EVERY_WORKER are deletions, which
    apply under any plan.
    """

    path: str
    worker: int
    bytes: int
    max_key: int
    rows: int
    plan_version: int


@dataclass(frozen=True)
class SegmentFiles:
    """Files of a worker under one plan that are built into one segment, their greatest key and their number of rows."""

    paths: tuple[str, ...]
    worker: int
    plan_version: int
    max_key: int
    rows: int

    @property
    def weight(self) -> float:
        """The work to build the segment, as a share of a full task."""
        return self.rows / SLICE_ROWS


class IndexFiles:
    """The files of an index as Arrow columns, ordered by worker and path, in the form that tasks get.

    An IndexFile is made when it is asked for. `columns` are path (below the folder `root` of the table), worker, bytes,
    max_key, rows and plan_version, as IndexFile has them.
    """

    def __init__(self, root: str, columns: pa.Table) -> None:
        self.root, self.columns = root, columns

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def __iter__(self) -> Iterator[IndexFile]:
        values = (column.to_pylist() for column in self.columns.columns)
        return (IndexFile(f"{self.root}/{path}", *others) for path, *others in zip(*values, strict=True))

    def of_worker(self, worker: int) -> "IndexFiles":
        """Return the files of a worker."""
        first, stop = np.searchsorted(self.columns.column("worker").to_numpy(), [worker, worker + 1])
        return IndexFiles(self.root, self.columns.slice(first, stop - first))

    def above(self, key: int) -> "IndexFiles":
        """Return the files that may have subscriptions with a greater key."""
        return IndexFiles(self.root, self.columns.filter(pc.field("max_key") > key))

    def find(self, path: str) -> IndexFile:
        """Return the file with a path as IndexFile has it."""
        position = pc.index(self.columns.column("path"), path.removeprefix(f"{self.root}/")).as_py()
        return next(iter(IndexFiles(self.root, self.columns.slice(position, 1))))

    @cached_property
    def segments(self) -> list[SegmentFiles]:
        """The segments of all files."""
        return segment_files(self)


_NUMBERS = ("worker", "bytes", "max_key", "rows", "plan_version")
NO_FILES = IndexFiles("", pa.schema({"path": pa.string(), **dict.fromkeys(_NUMBERS, pa.int64())}).empty_table())


FilesByOwner = dict[tuple[int, int], list[DataFile]]
"""Files of each worker and plan."""


def files_by_owner(home: Home, plan_version: int, below: int = names.MAX_INT64) -> FilesByOwner:
    """Return the files that serve a plan and the plan that it retires; only those of fewer bytes.

    The worker of files whose number the plan does not use is NO_WORKER.
    """
    groups: FilesByOwner = {}
    if (row := find_plan_row(home, plan_version)) is not None:
        numbers = numbers_in_index(home, plan_version)
        owned = _files_of_plan(home, row["index_version"], plan_version, retiring_plan(row), numbers)
        for file, *owner in zip(owned[0], *(column.tolist() for column in owned[1:])):
            if file.bytes < below:
                groups.setdefault(tuple(owner), []).append(file)
    return groups


def index_files(home: Home, plan_version: int) -> IndexFiles:
    """Return the files that serve a plan and the plan that it retires."""
    if (row := find_plan_row(home, plan_version)) is None:
        return NO_FILES
    numbers = numbers_in_index(home, plan_version)
    return index_files_to_come(home, row["index_version"], plan_version, retiring_plan(row), numbers)


def index_files_to_come(
    home: Home, index_version: int, plan_version: int, retiring: Retiring | None, numbers: Sequence[int]
) -> IndexFiles:
    """Return the files that will serve a plan which is not in force yet, and the plan that it will retire.

    numbers: `numbers_in_index` of the plan
    """
    files, worker, versions = _files_of_plan(home, index_version, plan_version, retiring, numbers)
    if not len(files):
        return NO_FILES
    path, size, rows = (files.columns.column(name) for name in ("path", "size_bytes", "num_records"))
    columns = [path, worker, size, files.bound("max.subscription_key", names.MAX_INT64), rows, versions]
    table = pa.table(columns, schema=NO_FILES.columns.schema).filter(pc.field("worker") != NO_WORKER)
    return IndexFiles(home.table(names.WORKER_INDEX), table.combine_chunks())


def _files_of_plan(
    home: Home, index_version: int, plan_version: int, retiring: Retiring | None, numbers: Sequence[int]
) -> tuple[DataFiles, np.ndarray, np.ndarray]:
    """Return files of an index, ordered by worker and path, the worker and the plan of each: int64[files] each."""
    files = list_data_files(home, names.WORKER_INDEX)
    if not len(files):
        return files, np.empty(0, np.int64), np.empty(0, np.int64)
    files = files.select(files.partition("index_version") == index_version)
    number = files.partition("worker")
    versions, has_pieces = np.full(len(files), plan_version), number != names.EVERY_WORKER
    by_plan = {plan_version: numbers}
    if retiring is not None:
        # A file without bounds may have any subscription.
        is_older = ~files.may_contain("subscription_key", retiring.to + 1, names.MAX_INT64)
        is_newer = ~files.may_contain("subscription_key", names.MIN_INT64, retiring.to)
        for file in files.select(has_pieces & ~is_older & ~is_newer):
            raise PstError(
                f"index file {file.path} has subscriptions of plan {plan_version} and of plan {retiring.plan_version}",
                "please report this: it is a bug of PSTStream",
            )
        versions[is_older & has_pieces] = retiring.plan_version
        by_plan[retiring.plan_version] = numbers_in_index(home, retiring.plan_version)
    worker = np.where(has_pieces, NO_WORKER, names.EVERY_WORKER)
    for version, own in by_plan.items():
        mine = has_pieces & (versions == version)
        worker[mine] = look_up(number[mine], np.asarray(own), np.arange(len(own)), NO_WORKER)
    order = np.argsort(worker, kind="stable")
    return DataFiles(files.columns.take(pa.array(order))), worker[order], versions[order]


def segment_files(files: Iterable[IndexFile]) -> list[SegmentFiles]:
    """Group the files of an index, without deletions, into segments. A large file is a segment of its own.

    Looking up an object in a segment costs as much as the postings of 30 subscriptions, and building a segment costs
    2 us for each row. So small files are built together with newer files of similar or greater size (SIMILAR_ROWS). Of
    n files of one size, the segments are the powers of two that sum to n: 8 + 4 + 1 for 13. For any n rows there are at
    most log1.5(n) + 1 segments, and a row is built again at most log5/3(n) times as files are added.
    """
    pieces = [file for file in files if file.worker != names.EVERY_WORKER]
    pieces.sort(key=lambda file: (file.worker, file.plan_version, file.max_key, file.path))
    segments = []
    for _, group in groupby(pieces, key=lambda file: (file.worker, file.plan_version)):
        served = list(group)
        segments += [_segment_of([file]) for file in served if file.bytes >= SMALL_BYTES]
        segments += [
            _segment_of(similar) for similar in _group_similar([file for file in served if file.bytes < SMALL_BYTES])
        ]
    return segments


def _group_similar(files: list[IndexFile]) -> list[list[IndexFile]]:
    """Group neighbours, so that each group has at least SIMILAR_ROWS times the rows of the next, or both together have
    more than SEGMENT_ROWS.
    """
    groups: list[list[IndexFile]] = []
    for file in files:
        groups.append([file])
        while len(groups) > 1 and _rows(groups[-2]) < min(
            SIMILAR_ROWS * _rows(groups[-1]), SEGMENT_ROWS - _rows(groups[-1]) + 1
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _rows(files: list[IndexFile]) -> int:
    return sum(file.rows for file in files)


def _segment_of(files: list[IndexFile]) -> SegmentFiles:
    paths = tuple(file.path for file in files)
    greatest = max(file.max_key for file in files)
    return SegmentFiles(paths, files[0].worker, files[0].plan_version, greatest, _rows(files))


def delete_older_indexes(home: Home, version: int) -> None:
    """Delete the indexes that a newer plan has replaced; `maintain` repeats it in case the planner was killed.

    Delta keeps their files for readers of older versions.
    """
    ledger_tables.delete_versions(home, names.WORKER_INDEX, "index_version", 0, version - 1)
