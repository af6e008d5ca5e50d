"""Late deletions: a deletion that is read after objects beyond its time were matched takes those pairs back.

So the set of pairs stays a pure function of the two logs, whatever the order in which they are read.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.matching.deletions import Deletions, build_deletions, merge_deletions
from pststream.pipeline.batch.match_tasks import MATCHES, match_rows
from pststream.pipeline.engine.arrow_columns import csr, lists, micros
from pststream.pipeline.engine.contract import ReceivedRows, SentRows
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.engine.task_context import TaskContext
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, FileWriter, data_files, located
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, tasks_of

PART_PAIRS = 2_000_000
MOST_PARTS = 1_000
PAIR_BYTES = 4
"""Of a pair in a file of `matches`, at least about."""


@dataclass(frozen=True)
class TakenBack:
    """The file of a part's retractions, and the pairs in it."""

    file: DataFile | None
    pairs: int


def retract(home: Home, settings: Settings, work: TaskContext, last: dt.datetime | None) -> tuple[list[DataFile], int]:
    """Files of `matches` that take back pairs of earlier batches which the batch's deletions end before their ts.

    `last`: a bound on the ts of objects matched so far. Returns the files, not yet committed, and their pairs.
    """
    mine = KeyRange("batch_id", work.batch_id - 1, work.batch_id)
    deletions = [
        file
        for file in mine.files(data_files(home, names.WORKER_INDEX))
        if file.partition == {"index_version": work.index_version, "worker": names.EVERY_WORKER}
    ]
    first = min((file.low["end_at"] for file in deletions), default=names.NEVER_US)
    if last is None or first > ledger_tables.micros_of(last):
        return [], 0
    earlier = KeyRange("batch_id", -1, work.batch_id - 1)
    found = [f for f in earlier.files(data_files(home, names.MATCHES)) if f.may_hold("ts", first, names.NEVER_US)]
    tasks = tasks_of(located(home, names.MATCHES, found))
    parts = min(max(1, sum(file.bytes for file in found) // (PAIR_BYTES * PART_PAIRS)), MOST_PARTS)
    paths = tuple(path for path, _ in located(home, names.WORKER_INDEX, deletions))
    done = get_engine(settings).run_shuffled(
        tasks,
        partial(_hit, mine, paths, earlier, parts),
        parts,
        partial(_take_back, work),
    )
    return [part.file for part in done if part.file], sum(part.pairs for part in done)


def _deletions(mine: KeyRange, paths: tuple[str, ...]) -> Deletions:
    """The deletions of this batch."""
    rows = list(
        read_slices([Slice(path, 0, 2**62) for path in paths], ["subscription_key", "end_at", "batch_id"], mine)
    )
    return merge_deletions([build_deletions(pa.Table.from_batches(rows))] if rows else [])


def _hit(
    mine: KeyRange, paths: tuple[str, ...], earlier: KeyRange, parts: int, slices: tuple[Slice, ...]
) -> Iterator[SentRows]:
    """Pairs whose subscription was deleted, at or after the end; and all retractions of such subscriptions."""
    keys, ends = _deletions(mine, paths)
    if not len(keys):
        return
    columns = ["object_key", "object_id", "ts", "subscription_keys", "retracted", "batch_id"]
    for rows in (part for batch in read_slices(slices, columns, earlier) for part in _cut(batch)):
        offsets, subscriptions = csr(rows.column("subscription_keys"))
        row = np.repeat(np.arange(rows.num_rows), np.diff(offsets))
        place = np.minimum(np.searchsorted(keys, subscriptions), len(keys) - 1)
        known = rows.column("retracted").to_numpy(zero_copy_only=False)[row]
        ended = micros(rows.column("ts"))[row] >= ends[place]
        hit = np.flatnonzero((keys[place] == subscriptions) & (known | ended))
        pairs = rows.select(["object_key", "object_id", "ts", "retracted"]).take(pa.array(row[hit]))
        pairs = pairs.append_column("subscription_key", pa.array(subscriptions[hit]))
        part = pairs.column("object_key").to_numpy() % parts
        for number in np.unique(part).tolist():
            yield number, 0, pairs.filter(pa.array(part == number))


def _cut(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows, in slices of about PART_PAIRS pairs."""
    ends = rows.column("subscription_keys").offsets.to_numpy()
    start = 0
    while start < rows.num_rows:
        stop = max(start + 1, int(np.searchsorted(ends, int(ends[start]) + PART_PAIRS, "right")) - 1)
        yield rows.slice(start, stop - start)
        start = stop


def _take_back(work: TaskContext, part: int, received: ReceivedRows) -> TakenBack:
    """Write retractions of the pairs that were not taken back before."""
    pairs = pa.concat_batches([rows for _, rows in received])
    keys = [pairs.column(name).to_numpy() for name in ("subscription_key", "object_key")]
    retracted = pairs.column("retracted").to_numpy(zero_copy_only=False)
    order = np.lexsort((~retracted, *keys))
    first = np.ones(len(order), bool)
    first[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    pairs = pairs.take(pa.array(order[first & ~retracted[order]]))
    objects = pairs.column("object_key").to_numpy()
    starts = np.flatnonzero(np.append(True, objects[1:] != objects[:-1])) if len(objects) else np.empty(0, np.int64)
    writer = FileWriter(Home(work.home).table(names.MATCHES), MATCHES)
    if len(starts):
        subscriptions = lists(np.append(starts, len(objects)), pairs.column("subscription_key").to_numpy())
        rows = pairs.take(pa.array(starts))
        writer.write(match_rows(rows, subscriptions, work, names.EVERY_WORKER, retracted=True))
    return TakenBack(writer.close(), len(objects))
