"""Count the insertions and deletions of the period that a sample's objects cover, for each live subscription.

Plans, comparisons, adjustments and benchmarks all get them from here, so they weigh requests against objects alike.
"""

from functools import partial

import pyarrow.compute as pc

from pststream.base import names
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.engine.running_engine import get_engine
from pststream.settings import Settings
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, rows_of_tasks, split_into_tasks


def find_period(files: list[DataFile], recent: KeyRange, up_to: int | None) -> KeyRange:
    """Return the range of the requests that came with the objects of a sample, by their keys.

    files   the data files of the objects
    recent  the range of the objects
    up_to   Delta version of `objects` that the sample ends with; None: the period ends with the log

    The period begins behind the last object before the sample; without one, at the first object, as subscriptions that
    were there before any object are no work of the period. Without objects, every request belongs to it. The keys of
    both logs are in the order in which their files came.
    """
    after = recent.after
    if after <= 0 and files:
        after = min(int(file.low.get(recent.column, 0)) for file in files) - 1
    last = names.MAX_INT64
    if up_to is not None and files:
        last = max(int(file.high.get(recent.column, names.MAX_INT64)) for file in files)
    return KeyRange("request_key", after, last)


def requests_per_subscription(
    home: Home, settings: Settings, period: KeyRange, live: float, progress: Progress
) -> tuple[float, float]:
    """Return the insertions and the deletions of a period, each over the number of live subscriptions."""
    files = period.files(list_data_files(home, names.REQUESTS))
    tasks = split_into_tasks(addresses_and_rows(home, names.REQUESTS, files))
    counter = TaskCounter(progress, Counted("counting requests", "request", rows_of_tasks(tasks)))
    counts = get_engine(settings).run_tasks(tasks, partial(_count_operations, period), counter)
    insertions, deletions = (sum(count[at] for count in counts) for at in (0, 1))
    return insertions / max(live, 1.0), deletions / max(live, 1.0)


def _count_operations(period: KeyRange, slices: tuple[Slice, ...]) -> tuple[int, int]:
    """Count the insertions and the deletions among the requests of a period."""
    insertions = deletions = 0
    for rows in read_slices(slices, ["request_key", "op"], period):
        insertions += pc.sum(pc.equal(rows.column("op"), "insert")).as_py() or 0
        deletions += pc.sum(pc.equal(rows.column("op"), "delete")).as_py() or 0
    return insertions, deletions
