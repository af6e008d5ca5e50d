"""The live data files of the worker index, as its Delta snapshot lists them, each with the plan that serves its rows.

While two plans are active, a file holds the subscriptions of one of them: the older ones were all in the index when the
newer plan came, and whatever writes files after that keeps the two apart.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from pststream import names
from pststream.errors import PstError
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, data_files
from pststream.state.home import Home
from pststream.state.plans import Retiring, find_plan_row, retiring_plan

SMALL_BYTES = 8 * 1024 * 1024
"""A smaller file is merged with others like it, for good by `match` and `maintain`, and before that in segments."""


ALIKE = 1.5
"""Half as many rows more are about as many: what each worker gets of a batch's requests differs by chance, and workers
that built together at different batches would seem out of balance in each of these."""


@dataclass(frozen=True)
class IndexFile:
    """A data file: its path, the worker whose rows it holds, its size, the greatest subscription key in it.

    plan_version: the plan under which the worker serves its rows. The rows of names.EVERY_WORKER are deletions, which
    hold under any plan.
    """

    path: str
    worker: int
    bytes: int
    max_key: int
    rows: int
    plan_version: int


@dataclass(frozen=True)
class SegmentFiles:
    """Files of a worker, served under one plan, that are built into one segment; and the greatest key in them."""

    paths: tuple[str, ...]
    worker: int
    plan_version: int
    max_key: int


@dataclass(frozen=True)
class ServedFile:
    """A data file as its table lists it, and the plan that serves its rows."""

    data: DataFile
    plan_version: int

    @property
    def worker(self) -> int:
        """The worker whose rows it holds."""
        return self.data.partition["worker"]


def served_files(home: Home, plan_version: int) -> list[ServedFile]:
    """The files of the index that a plan, and the one that it retires, are served from; ordered by worker and path."""
    row = find_plan_row(home, plan_version)
    index, retiring = (row["index_version"], retiring_plan(row)) if row else (plan_version, None)
    files = [file for file in data_files(home, names.WORKER_INDEX) if file.partition["index_version"] == index]
    found = [ServedFile(file, _plan_of(file, plan_version, retiring)) for file in files]
    return sorted(found, key=lambda file: (file.worker, file.data.path))


def index_files(home: Home, plan_version: int) -> list[IndexFile]:
    """As `served_files`, as tasks are told of them."""
    root = home.table(names.WORKER_INDEX)
    return [
        IndexFile(
            f"{root}/{file.data.path}",
            file.worker,
            file.data.bytes,
            file.data.high.get("subscription_key", names.NEVER_US),
            file.data.rows,
            file.plan_version,
        )
        for file in served_files(home, plan_version)
    ]


def segment_files(files: Iterable[IndexFile]) -> list[SegmentFiles]:
    """How the files of an index (deletions left out) are built into segments: a large file is one of its own.

    Each object is looked up in each segment of its worker, which costs it as much as the postings of 30 subscriptions,
    while building a segment costs 2 us a row: so small files are built together with newer ones that have about as many
    rows or more (see ALIKE). Of n files alike these are the powers of two that make n, as 8 + 4 + 1 of 13. Of any n
    rows there are at most log1.5(n) + 1 segments, and a row is built again at most log5/3(n) times as files are added.
    """
    pieces = [file for file in files if file.worker != names.EVERY_WORKER]
    pieces.sort(key=lambda file: (file.worker, file.plan_version, file.max_key, file.path))
    found = []
    for _, held in groupby(pieces, key=lambda file: (file.worker, file.plan_version)):
        served = list(held)
        found += [_segment_of([file]) for file in served if file.bytes >= SMALL_BYTES]
        found += [_segment_of(group) for group in _alike([file for file in served if file.bytes < SMALL_BYTES])]
    return found


def _alike(files: list[IndexFile]) -> list[list[IndexFile]]:
    """Files in order as groups of neighbours, each of ALIKE times the rows of the next or more."""
    groups: list[list[IndexFile]] = []
    for file in files:
        groups.append([file])
        while len(groups) > 1 and _rows(groups[-2]) < ALIKE * _rows(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _rows(files: list[IndexFile]) -> int:
    return sum(file.rows for file in files)


def _segment_of(files: list[IndexFile]) -> SegmentFiles:
    paths = tuple(file.path for file in files)
    return SegmentFiles(paths, files[0].worker, files[0].plan_version, max(file.max_key for file in files))


def _plan_of(file: DataFile, version: int, retiring: Retiring | None) -> int:
    if retiring is None or file.partition["worker"] == names.EVERY_WORKER:
        return version
    if file.high.get("subscription_key", names.NEVER_US) <= retiring.to:
        return retiring.plan_version
    if file.low.get("subscription_key", -1) > retiring.to:
        return version
    raise PstError(
        f"index file {file.path} holds subscriptions of plan {version} and of plan {retiring.plan_version}",
        "please report this: it is a fault",
    )


def forget_older(home: Home, version: int) -> None:
    """Take the rows of indexes before this one out of the table; a planner may have been killed before it did.

    Delta keeps their files for readers of old versions.
    """
    if any(file.partition["index_version"] < version for file in data_files(home, names.WORKER_INDEX)):
        ledger_tables.delete(home, names.WORKER_INDEX, f"index_version < {version}")
