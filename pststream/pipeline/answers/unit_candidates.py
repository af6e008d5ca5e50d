"""Find the candidates of `topk` subscriptions at the units of their plan, if they have one (`plans/topk_plan.py`).

The objects of a batch go to the units that own one of their words, and the candidates that a unit finds go to the
buckets of answers, which fold them. The index of a unit is derived data, as that of a bucket is: it follows from the
plan, the request log, the weights of words and the thresholds that committed batches have logged. A unit brings its
index up to the batch before by what was logged since, and writes it into a folder of the node. A missing folder, or one
of a batch that a restore has undone, is built from the last snapshot of answers and the log after it. So a new plan
moves nothing: its units build their indexes when they first run.

When a logged threshold loosens, a loose prefix may need more words: the unit of these words adds the subscription
before it searches (Skype, section 7.3.4, lazy reallocation). A prefix that becomes shorter changes nothing.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from pststream.answers.contract import Values
from pststream.answers.scored_index import IndexFolder, Messages, ScoredIndex
from pststream.answers.topk_units import UnitShare
from pststream.base.arrow_columns import csr
from pststream.engine.contract import ReceivedRows, SentRows
from pststream.engine.warm_up import load_kernels
from pststream.pipeline.answers.answer_context import AnswerContext
from pststream.pipeline.answers.fold_bucket import (
    SCORED_CANDIDATES,
    UNIT_REPORT,
    UnitReport,
    send_candidates,
    send_report,
)
from pststream.pipeline.answers.scored_candidates import as_messages, as_subscriptions
from pststream.pipeline.answers.unit_changes import read_changes
from pststream.search.term_weights import TermWeights
from pststream.state.slices import Slice, split_into_tasks

MESSAGES = 0
"""Tag of the objects that units receive."""

SEARCHED_MESSAGES = 65_536
"""Objects that a unit searches at a time."""

INSERTED = 500_000
"""Subscriptions that are compared with the plan at a time."""


@dataclass(frozen=True)
class MessageScan:
    """A task that sends objects of the batch to units. Their rows count as work of the task that routes them."""

    slices: tuple[Slice, ...]
    weight: float = 0.0


def count_units(context: AnswerContext) -> int:
    """Return the number of units that seek candidates in this batch; 0: buckets do, or nothing is sought."""
    plan = context.topk_plan()
    return plan.units if plan is not None and context.seeks_scored and context.messages else 0


def message_scans(context: AnswerContext) -> list[MessageScan]:
    """Return the tasks that send the objects of the batch to units; none if units seek no candidates."""
    files = context.messages if count_units(context) else ()
    return [MessageScan(slices) for slices in split_into_tasks((one.path, one.rows) for one in files)]


def send_messages(context: AnswerContext, first_part: int, scan: MessageScan) -> Iterator[SentRows]:
    """Send the objects of a scan to units, by the words that a subscription has; part `first_part` of the next stage is
    unit 0.
    """
    plan, queries = context.topk_plan(), context.queries()
    if plan is None:
        return
    for rows in context.read_messages(scan.slices):
        offsets, terms = csr(rows.column("terms"))
        is_word = queries.are_scored_words(terms)
        position, unit = plan.route(np.append(0, np.cumsum(is_word))[offsets], terms[is_word])
        borders = np.searchsorted(unit, np.arange(plan.units + 1))
        for ordinal in range(plan.units):
            mine = position[borders[ordinal] : borders[ordinal + 1]]
            if len(mine):
                yield first_part + ordinal, MESSAGES, rows.take(pa.array(mine))


def find_unit_candidates(context: AnswerContext, unit: int, received: ReceivedRows) -> Iterator[SentRows]:
    """Search the index of a unit with the objects that it received; send what it finds, and its report, to buckets."""
    load_kernels()
    plan = context.topk_plan()
    if plan is None:
        return
    began, objects, candidates = time.thread_time(), 0, list[Values]()
    with _own_folder(context.unit_folder(unit)) as folder:
        index = bring_up_unit(context, folder, UnitShare(plan, unit))
        brought_up = time.thread_time()
        for messages in _messages(received, context.segments.weights):
            objects += len(messages.key)
            candidates.append(index.find_candidates(messages))
    ended = time.thread_time()
    for values in candidates:
        columns = dict(zip(("subscription_key", "object_key", "ts", "value"), values, strict=True))
        yield from send_candidates(context.buckets, pa.record_batch(columns), SCORED_CANDIDATES)
    count = sum(len(values.subscription) for values in candidates)
    seconds = {"seconds": ended - began, "search_seconds": ended - brought_up}
    yield send_report(UnitReport(unit, objects, index.subscriptions, count, **seconds), UNIT_REPORT)


def _messages(received: ReceivedRows, weights: TermWeights) -> Iterator[Messages]:
    """Yield the received objects, SEARCHED_MESSAGES or somewhat more at a time."""
    waiting = list[pa.RecordBatch]()
    for _, rows in received:
        waiting.append(rows)
        if sum(one.num_rows for one in waiting) >= SEARCHED_MESSAGES:
            yield as_messages(pa.concat_batches(waiting), weights)
            waiting = []
    if waiting:
        yield as_messages(pa.concat_batches(waiting), weights)


@contextmanager
def _own_folder(folder: Path) -> Iterator[Path]:
    """Lock the folder of a unit; give another one if it is in use: a second attempt of a task does not wait."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with tempfile.TemporaryDirectory(dir=folder.parent) as own:
                yield Path(own)
            return
        yield folder
    finally:
        os.close(lock)


def bring_up_unit(context: AnswerContext, path: Path, share: UnitShare) -> ScoredIndex:
    """Return the index of a unit after the batch before, and write it into the folder, which the caller has locked."""
    folder, last = IndexFolder(path), context.previous
    opened = folder.open()
    if opened is not None and context.continues(opened[1], folder.started_at):
        index, since = opened
        index.marks = share.mark
        if since == last.batch_id:
            return index
    else:
        index, since, opened = ScoredIndex(marks=share.mark), context.last_snapshot, None
    folder.begin_changes()
    changes = read_changes(context, share, since, is_whole=opened is None)
    lives = changes.thresholds > -np.inf
    keys, thresholds = changes.keys[lives], changes.thresholds[lives]
    index.change_thresholds(keys, thresholds)
    is_new = ~index.holds(keys)
    _insert(context, index, share, keys[is_new], thresholds[is_new])
    index.delete(changes.keys[~lives])
    folder.write(index, last.batch_id, last.started_at)
    return index


def _insert(
    context: AnswerContext, index: ScoredIndex, share: UnitShare, keys: np.ndarray, thresholds: np.ndarray
) -> None:
    """Insert those of some subscriptions (keys int64[n], ascending) that the unit holds."""
    for first in range(0, len(keys), INSERTED):
        some = slice(first, first + INSERTED)
        is_known, chosen = context.queries().select(keys[some])
        candidates = as_subscriptions(chosen, thresholds[some][is_known], context.segments.weights)
        index.insert(share.select(candidates))
