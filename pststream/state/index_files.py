"""List the data files of the worker index with the plan that serves each, and group them into segments.

While two plans are active, a file has subscriptions of only one of the two: all subscriptions of the older plan were in
the index before the newer plan came into force, and later writers keep the plans apart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from pststream.base import names
from pststream.base.errors import PstError
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, list_data_files
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


@dataclass(frozen=True)
class FileOfPlan:
    """A data file of the table, the plan that serves its rows, and the worker of that plan, or NO_WORKER."""

    data: DataFile
    plan_version: int
    worker: int


def files_of_plan(home: Home, plan_version: int) -> list[FileOfPlan]:
    """Return the files that serve a plan and the plan that it retires, ordered by worker and path."""
    row = find_plan_row(home, plan_version)
    if row is None:
        return []
    numbers = numbers_in_index(home, plan_version)
    return _files_of_plan(home, row["index_version"], plan_version, retiring_plan(row), numbers)


def _files_of_plan(
    home: Home, index_version: int, plan_version: int, retiring: Retiring | None, numbers: Sequence[int]
) -> list[FileOfPlan]:
    by_plan = {plan_version: numbers}
    if retiring:
        by_plan[retiring.plan_version] = numbers_in_index(home, retiring.plan_version)
    worker_of = {version: dict(zip(own, range(len(own)))) for version, own in by_plan.items()}
    plan_files = []
    for file in list_data_files(home, names.WORKER_INDEX):
        if file.partition["index_version"] == index_version:
            version, number = _plan_of(file, plan_version, retiring), file.partition["worker"]
            worker = number if number == names.EVERY_WORKER else worker_of[version].get(number, NO_WORKER)
            plan_files.append(FileOfPlan(file, version, worker))
    return sorted(plan_files, key=lambda file: (file.worker, file.data.path))


def index_files(home: Home, plan_version: int) -> list[IndexFile]:
    """Return the files that serve a plan, in the form that tasks get."""
    return _for_tasks(home, files_of_plan(home, plan_version))


def index_files_to_come(
    home: Home, index_version: int, plan_version: int, retiring: Retiring | None, numbers: Sequence[int]
) -> list[IndexFile]:
    """Return the files that will serve a plan which is not in force yet, and the plan that it will retire.

    numbers: `numbers_in_index` of the plan
    """
    return _for_tasks(home, _files_of_plan(home, index_version, plan_version, retiring, numbers))


def _for_tasks(home: Home, files: list[FileOfPlan]) -> list[IndexFile]:
    root = home.table(names.WORKER_INDEX)
    return [
        IndexFile(
            f"{root}/{file.data.path}", file.worker, file.data.bytes,
            file.data.high.get("subscription_key", names.MAX_INT64), file.data.rows, file.plan_version,
        )
        for file in files
        if file.worker != NO_WORKER
    ]  # fmt: skip


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
    """Group neighbours, so that each group has at least SIMILAR_ROWS times the rows of the next."""
    groups: list[list[IndexFile]] = []
    for file in files:
        groups.append([file])
        while len(groups) > 1 and _rows(groups[-2]) < SIMILAR_ROWS * _rows(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _rows(files: list[IndexFile]) -> int:
    return sum(file.rows for file in files)


def _segment_of(files: list[IndexFile]) -> SegmentFiles:
    paths = tuple(file.path for file in files)
    greatest = max(file.max_key for file in files)
    return SegmentFiles(paths, files[0].worker, files[0].plan_version, greatest, _rows(files))


def _plan_of(file: DataFile, version: int, retiring: Retiring | None) -> int:
    if retiring is None or file.partition["worker"] == names.EVERY_WORKER:
        return version
    if file.high.get("subscription_key", names.MAX_INT64) <= retiring.to:
        return retiring.plan_version
    if file.low.get("subscription_key", -1) > retiring.to:
        return version
    raise PstError(
        f"index file {file.path} has subscriptions of plan {version} and of plan {retiring.plan_version}",
        "please report this: it is a bug of PSTStream",
    )


def delete_older_indexes(home: Home, version: int) -> None:
    """Delete the indexes that a newer plan has replaced; `maintain` repeats it in case the planner was killed.

    Delta keeps their files for readers of older versions.
    """
    ledger_tables.delete_versions(home, names.WORKER_INDEX, "index_version", 0, version - 1)
