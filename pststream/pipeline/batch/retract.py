"""Find matches of earlier batches that deletions or withdrawals of a batch make invalid, and write their retractions.

A match is invalid if its subscription was deleted at or before the ts of the object, which was matched before the
deletion was read, or if its object was withdrawn after it was matched. With the retractions the matches are a pure
function of the two logs, in whatever order the logs are read.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrays import distinct_values, look_up
from pststream.base.arrow_columns import csr, lists, micros
from pststream.base.utc_times import to_micros
from pststream.engine.contract import ReceivedRows, SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext
from pststream.matching.segments import build_deletions, merge_deletions
from pststream.pipeline.batch.failed_tries import TRY_SECONDS
from pststream.pipeline.batch.match_task import MATCHES, match_rows
from pststream.settings import Settings
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, split_into_tasks, whole_file
from pststream.tables.log_events import WithdrawnRows

PART_PAIRS = 2_000_000
"""Pairs that a part of the shuffle has at most, about."""

MAX_PARTS = 1_000
PAIR_BYTES = 4
"""Bytes of a pair in a file of `matches`, at least."""


@dataclass(frozen=True)
class Retractions:
    """Files of `matches` with retractions, not yet committed, and their pairs; is_blind: `matches` was not read."""

    files: list[DataFile]
    pairs: int
    is_blind: bool = False


def write_retractions(
    home: Home,
    settings: Settings,
    context: TaskContext,
    max_matched_ts: dt.datetime | None,
    withdrawn: WithdrawnRows,
) -> Retractions:
    """Write retractions of the pairs of earlier batches that the deletions of this batch end before the object's ts,
    and of those of the objects that it withdraws.

    max_matched_ts: a bound on the ts of objects matched so far
    """
    of_batch = KeyRange("batch_id", context.batch_id - 1, context.batch_id)
    indexed = of_batch.files(list_data_files(home, names.WORKER_INDEX))
    is_deletion = indexed.partition("worker") == names.EVERY_WORKER
    deletions = indexed.select(is_deletion & (indexed.partition("index_version") == context.index_version))
    first_end = min((file.low["end_at"] for file in deletions), default=names.NEVER_US)
    if not withdrawn and (max_matched_ts is None or first_end > to_micros(max_matched_ts)):
        return Retractions([], 0, is_blind=True)
    earlier = KeyRange("batch_id", -1, context.batch_id - 1)
    gone = withdrawn.keys if withdrawn else np.empty(0, np.int64)
    matched = earlier.files(list_data_files(home, names.MATCHES))
    is_wanted = matched.may_contain("ts", first_end, names.NEVER_US)
    if len(gone):
        is_wanted |= matched.may_contain("object_key", int(gone[0]), int(gone[-1]))
    files = matched.select(is_wanted)
    tasks = split_into_tasks(addresses_and_rows(home, names.MATCHES, files))
    parts = min(max(1, sum(file.bytes for file in files) // (PAIR_BYTES * PART_PAIRS)), MAX_PARTS)
    paths = tuple(path for path, _ in addresses_and_rows(home, names.WORKER_INDEX, deletions))
    # Before the shuffle `_send_ended_pairs` runs on each task's rows of `matches` and sends a pair to the part of its
    # object; after it `_write_part` runs on each part.
    written = get_engine(settings, home).run_shuffled(
        tasks,
        partial(_send_ended_pairs, of_batch, paths, withdrawn, earlier, parts),
        [Stage(parts, partial(_write_part, context))],
        seconds=TRY_SECONDS,
    )
    return Retractions([file for part in written for file in part.files], sum(part.pairs for part in written))


def _send_ended_pairs(
    of_batch: KeyRange,
    paths: tuple[str, ...],
    withdrawn: WithdrawnRows,
    earlier: KeyRange,
    parts: int,
    slices: tuple[Slice, ...],
) -> Iterator[SentRows]:
    """Send the pairs of deleted subscriptions from the end on, all retractions of such subscriptions, and all rows of
    withdrawn objects.
    """
    rows_of_batch = read_slices(map(whole_file, paths), ["subscription_key", "end_at", "batch_id"], of_batch)
    deletions = list(rows_of_batch)
    keys, ends = merge_deletions([build_deletions(pa.Table.from_batches(deletions))] if deletions else [])
    if not len(keys) and not withdrawn:
        return
    columns = ["object_key", "object_id", "ts", "subscription_keys", "retracted", "batch_id"]
    for rows in (part for batch in read_slices(slices, columns, earlier) for part in _split_rows(batch)):
        offsets, subscriptions = csr(rows.column("subscription_keys"))
        row = np.repeat(np.arange(rows.num_rows), np.diff(offsets))
        is_retraction = rows.column("retracted").to_numpy(zero_copy_only=False)[row]
        is_chosen = withdrawn.contain(rows.column("object_key").to_numpy())[row]
        end = look_up(subscriptions, keys, ends, names.NEVER_US)
        is_chosen |= (end < names.NEVER_US) & (is_retraction | (micros(rows.column("ts"))[row] >= end))
        chosen = np.flatnonzero(is_chosen)
        pairs = rows.select(["object_key", "object_id", "ts", "retracted"]).take(pa.array(row[chosen]))
        pairs = pairs.append_column("subscription_key", pa.array(subscriptions[chosen]))
        part = pairs.column("object_key").to_numpy() % parts
        for ordinal in distinct_values(part).tolist():
            yield ordinal, 0, pairs.filter(pa.array(part == ordinal))


def _split_rows(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in slices of about PART_PAIRS pairs."""
    ends = rows.column("subscription_keys").offsets.to_numpy()
    start = 0
    while start < rows.num_rows:
        stop = max(start + 1, int(np.searchsorted(ends, int(ends[start]) + PART_PAIRS, "right")) - 1)
        yield rows.slice(start, stop - start)
        start = stop


def _write_part(context: TaskContext, part: int, received: ReceivedRows) -> Retractions:
    """Write retractions of the received pairs that no earlier batch has retracted."""
    # Sort by pair, a retraction before the pair itself; the first row of a pair decides.
    pairs = pa.concat_batches([rows for _, rows in received])
    keys = [pairs.column(name).to_numpy() for name in ("subscription_key", "object_key")]
    retracted = pairs.column("retracted").to_numpy(zero_copy_only=False)
    order = np.lexsort((~retracted, *keys))
    first = np.ones(len(order), bool)
    first[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    pairs = pairs.take(pa.array(order[first & ~retracted[order]]))
    # Write one row for each object, with its subscriptions as a list.
    objects = pairs.column("object_key").to_numpy()
    starts = np.flatnonzero(np.append(True, objects[1:] != objects[:-1])) if len(objects) else np.empty(0, np.int64)
    writer = FileWriter(Home(context.home).table(names.MATCHES), MATCHES)
    if len(starts):
        subscriptions = lists(np.append(starts, len(objects)), pairs.column("subscription_key").to_numpy())
        rows = pairs.take(pa.array(starts))
        writer.write(match_rows(rows, subscriptions, context, names.EVERY_WORKER, retracted=True))
    file = writer.close()
    return Retractions([file] if file else [], len(objects))
