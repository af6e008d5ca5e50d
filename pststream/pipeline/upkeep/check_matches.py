"""The matches against the ledger: each pair within what its batch took, and as many as the batch has counted."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.pipeline.engine.arrow_columns import csr
from pststream.pipeline.engine.running_engine import get_engine
from pststream.settings import Settings
from pststream.state.data_files import data_files, located
from pststream.state.home import Home
from pststream.state.ledger import settled
from pststream.state.slices import KeyRange, Slice, read_slices, tasks_of

COLUMNS = ["object_key", "subscription_keys", "retracted", "batch_id"]
FIELDS = ("batch_id", "objects_after", "objects_to", "requests_after", "requests_to", "matches", "retractions")


@dataclass
class Counted:
    """What a task found: rows of unknown batches, pairs out of range, pairs and retractions by place of the batch."""

    unknown: int
    outside: int
    pairs: np.ndarray
    retractions: np.ndarray


def match_figures(home: Home, settings: Settings, after: int, to: int) -> dict[str, int]:
    """The figures of the check `matches` (quality/table_expectations.py) for the batches in (after, to], which are
    done.

    A task holds 65,536 rows of `matches` at a time, and two counts for each batch.
    """
    number = pds.field("batch_id")
    rows = settled(home, names.BATCHES, "batch_id", list(FIELDS[1:]), (number > after) & (number <= to))
    batches = {name: pc.fill_null(rows.column(name), 0).to_numpy() for name in FIELDS}
    wanted = KeyRange("batch_id", after, to)
    tasks = tasks_of(located(home, names.MATCHES, wanted.files(data_files(home, names.MATCHES))))
    found = get_engine(settings).run_tasks(tasks, partial(_count, batches, wanted))
    none = np.zeros(rows.num_rows, np.int64)
    pairs = sum((one.pairs for one in found), none)
    retractions = sum((one.retractions for one in found), none)
    off = (pairs != batches["matches"]) | (retractions != batches["retractions"])
    return {
        "unknown_batches": sum(one.unknown for one in found),
        "out_of_range": sum(one.outside for one in found),
        "pairs_off": int(off.sum()),
    }


def _count(batches: dict[str, np.ndarray], wanted: KeyRange, slices: tuple[Slice, ...]) -> Counted:
    count = len(batches["batch_id"])
    told = Counted(0, 0, np.zeros(count, np.int64), np.zeros(count, np.int64))
    for rows in read_slices(slices, COLUMNS, wanted):
        numbers = rows.column("batch_id").to_numpy()
        place = np.minimum(np.searchsorted(batches["batch_id"], numbers), max(count - 1, 0))
        known = batches["batch_id"][place] == numbers if count else np.zeros(len(numbers), bool)
        told.unknown += int((~known).sum())
        _count_pairs(batches, rows.filter(pa.array(known)), place[known], told)
    return told


def _count_pairs(batches: dict[str, np.ndarray], rows: pa.RecordBatch, place: np.ndarray, told: Counted) -> None:
    """Count the pairs of rows whose batches stand at `place`.

    A pair is of a new object and any subscription up to then, or of a stored object and a new subscription; one that
    is taken back is of any object and any subscription up to then.
    """
    offsets, subscription = csr(rows.column("subscription_keys"))
    owner = np.repeat(np.arange(rows.num_rows), np.diff(offsets))
    batch = place[owner]
    taken_back = pc.fill_null(rows.column("retracted"), False).to_numpy(zero_copy_only=False)[owner]
    object_ = rows.column("object_key").to_numpy()[owner]
    stored = object_ <= batches["objects_after"][batch]
    new = subscription > batches["requests_after"][batch]
    within = (object_ <= batches["objects_to"][batch]) & (subscription <= batches["requests_to"][batch])
    told.outside += int((~(within & (~stored | new | taken_back))).sum())
    told.pairs += np.bincount(batch[~taken_back], minlength=len(told.pairs))
    told.retractions += np.bincount(batch[taken_back], minlength=len(told.pairs))
