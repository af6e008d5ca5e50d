"""Count matches outside the key ranges of their batch, and batches whose ledger row states another number of pairs."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrow_columns import csr
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.base.sorted_keys import find_among
from pststream.engine.running_engine import get_engine
from pststream.settings import Settings
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.erasures import count_removed_pairs, removed_rows
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, rows_of_tasks, split_into_tasks
from pststream.tables.log_end import read_latest

COLUMNS = ["object_key", "subscription_keys", "retracted", "batch_id"]
FIELDS = ("batch_id", "objects_after", "objects_to", "requests_after", "requests_to", "matches", "retractions")


@dataclass
class TaskCounts:
    """Counts of one task: rows of unknown batches, pairs out of range; pairs and retractions by place of the batch."""

    unknown: int
    outside: int
    pairs: np.ndarray
    retractions: np.ndarray


def count_match_faults(home: Home, settings: Settings, after: int, to: int, progress: Progress) -> dict[str, int]:
    """Return the figures of the check `matches` (input/table_expectations.py) for the batches in (after, to], which
    are done.

    A task has 65,536 rows of `matches` in memory at a time, and two counts for each batch.
    """
    number = pds.field("batch_id")
    rows = read_latest(home, names.BATCHES, "batch_id", list(FIELDS[1:]), (number > after) & (number <= to))
    batches = {name: pc.fill_null(rows.column(name), 0).to_numpy() for name in FIELDS}
    wanted = KeyRange("batch_id", after, to)
    tasks = split_into_tasks(
        addresses_and_rows(home, names.MATCHES, wanted.files(list_data_files(home, names.MATCHES)))
    )
    counter = TaskCounter(progress, Counted("matches", "row", rows_of_tasks(tasks)))
    counts = get_engine(settings).run_tasks(tasks, partial(_count, batches, wanted), counter)
    none = np.zeros(rows.num_rows, np.int64)
    pairs = sum((one.pairs for one in counts), none)
    retractions = sum((one.retractions for one in counts), none)
    removed_pairs, removed_retractions = count_removed_pairs(removed_rows(home)).of_batches(batches["batch_id"])
    off = (pairs + removed_pairs != batches["matches"]) | (retractions + removed_retractions != batches["retractions"])
    return {
        "unknown_batches": sum(one.unknown for one in counts),
        "out_of_range": sum(one.outside for one in counts),
        "pairs_off": int(off.sum()),
    }


def _count(batches: dict[str, np.ndarray], wanted: KeyRange, slices: tuple[Slice, ...]) -> TaskCounts:
    count = len(batches["batch_id"])
    counts = TaskCounts(0, 0, np.zeros(count, np.int64), np.zeros(count, np.int64))
    for rows in read_slices(slices, COLUMNS, wanted):
        numbers = rows.column("batch_id").to_numpy()
        place, known = find_among(numbers, batches["batch_id"])
        counts.unknown += int((~known).sum())
        _count_pairs(batches, rows.filter(pa.array(known)), place[known], counts)
    return counts


def _count_pairs(batches: dict[str, np.ndarray], rows: pa.RecordBatch, place: np.ndarray, counts: TaskCounts) -> None:
    """Add the pairs of rows to `counts`; place: position of the batch of each row.

    A pair has a new object and any subscription up to the batch, or a stored object and a new subscription; a
    retraction has any object and any subscription up to the batch.
    """
    offsets, subscription = csr(rows.column("subscription_keys"))
    owner = np.repeat(np.arange(rows.num_rows), np.diff(offsets))
    batch = place[owner]
    retracted = pc.fill_null(rows.column("retracted"), False).to_numpy(zero_copy_only=False)[owner]
    object_key = rows.column("object_key").to_numpy()[owner]
    stored = object_key <= batches["objects_after"][batch]
    new = subscription > batches["requests_after"][batch]
    within = (object_key <= batches["objects_to"][batch]) & (subscription <= batches["requests_to"][batch])
    counts.outside += int((~(within & (~stored | new | retracted))).sum())
    counts.pairs += np.bincount(batch[~retracted], minlength=len(counts.pairs))
    counts.retractions += np.bincount(batch[retracted], minlength=len(counts.pairs))
