"""Find the candidates of `topk` subscriptions at the units of their plan, if they have one (`plans/topk_plan.py`).

The objects of a batch go to the units that own one of their words, and the candidates that a unit finds go to the
buckets of answers, which fold them. The index of a unit is derived data, as that of a bucket is: it follows from the
plan, the request log, the weights of words and the thresholds that committed batches have logged. A unit brings its
index up to the batch before by what was logged since, and writes it into a folder of the node. A missing folder, or one
of a batch that a restore has undone, is built from the last snapshot of answers and the log after it. So a new plan
moves nothing: its units build their indexes when they first run.

When a logged threshold loosens, a loose prefix may need more words: the unit of these words adds the subscription
before it searches (Skype, section 7.3.4, lazy reallocation). A prefix that becomes shorter changes nothing.

Each unit needs only the changes of subscriptions that it may hold. The first unit of a process that needs the changes
of some batches reads the log for all units, and keeps them by unit in a file of the node. So a batch costs one pass
over its rows, whatever the number of units.
"""

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.answers.contract import Values
from pststream.answers.scored_index import IndexFolder, Messages, ScoredIndex, ScoredSubscriptions
from pststream.answers.topk_units import UnitShare, as_sample
from pststream.base import names
from pststream.base.arrays import distinct_values, hash_to_unit, is_among
from pststream.base.arrow_columns import csr, one_array
from pststream.base.errors import UsageError
from pststream.base.progress import Progress
from pststream.base.texts import counted
from pststream.base.utc_times import to_micros
from pststream.engine.contract import ReceivedRows, SentRows
from pststream.engine.running_engine import get_engine
from pststream.engine.warm_up import load_kernels
from pststream.pipeline.answers.answer_context import AnswerContext, context_after
from pststream.pipeline.answers.fold_bucket import (
    SCORED_CANDIDATES,
    UNIT_REPORT,
    UnitReport,
    send_candidates,
    send_report,
)
from pststream.pipeline.answers.log_rows import ENTRY, is_event, list_state_files, slices_of
from pststream.pipeline.answers.scored_candidates import (
    as_messages,
    as_subscriptions,
    that_meet_conditions,
    verify_scores,
)
from pststream.pipeline.index.stored_pieces import has_standing_queries
from pststream.pipeline.planning.plan import SEED, draw_objects
from pststream.planning.papers.topk_sample import TopkSample
from pststream.plans.topk_plan import TopkPlan
from pststream.settings import Settings
from pststream.state.data_files import list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, split_into_tasks
from pststream.storage.array_cache import TornFileError, map_arrays, write_arrays
from pststream.tables.ledgers import Ledger, read_batches


def read_thresholds(home: Home, after: int, up_to: int, snapshot: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the last thresholds that the batches after < batch_id <= up_to have logged: keys int64[n], ascending, and
    values float32[n], the greatest that a buffer keeps.

    snapshot: also those in the snapshot of answers after the batch `after`, of subscriptions without a later one
    """
    parts: list[tuple[np.ndarray, ...]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    if snapshot and after:
        of_batch, columns = KeyRange("batch_id", after - 1, after), ["batch_id", "subscription_key", "threshold"]
        files = of_batch.files(list_data_files(home, names.ANSWERS))
        for rows in read_slices(slices_of(home, files, names.ANSWERS), columns, of_batch):
            # A subscription has a row for each entry of its buffer.
            first = np.flatnonzero(np.diff(rows.column("subscription_key").to_numpy(), prepend=-1))
            parts.append(tuple(rows.column(name).to_numpy()[first] for name in columns))
    slices, columns = slices_of(home, list_state_files(home, after, up_to)), ["batch_id", "subscription_key", "value"]
    for rows in read_slices(slices, ["event", *columns], KeyRange("batch_id", after, up_to)):
        limits = rows.filter(pa.array(~is_event(rows, ENTRY)))
        parts.append(tuple(limits.column(name).to_numpy() for name in columns))
    batch, key, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.lexsort((batch, key))
    last = order[np.append(np.diff(key[order]) != 0, True)[: len(order)]]
    return key[last], value[last]


COMPARED = 500_000
"""Subscriptions that are compared with the plan at a time."""

FOLDER = "changes"

_reading = threading.Lock()


class Changes(NamedTuple):
    """What changes for one unit, n rows.

    keys        int64[n]    subscriptions, each once among those that live and once among those that ended
    thresholds  float32[n]  greatest value that enters; -infinity: the subscription has ended
    """

    keys: np.ndarray
    thresholds: np.ndarray


def read_changes(context: AnswerContext, share: UnitShare, since: int, is_whole: bool) -> Changes:
    """Return what the batches after `since`, up to the batch before, change for a unit.

    is_whole: `since` is the last snapshot of answers, 0 without one; also its subscriptions are among the changes
    """
    last = context.previous
    ending = f"-{last.batch_id}-{last.started_at}"
    path = context.units_folder() / FOLDER / f"{'whole' if is_whole else 'after'}-{since}{ending}"
    with _reading:  # the threads of a process read the log once
        try:
            arrays = map_arrays(path)
        except (FileNotFoundError, TornFileError):
            arrays = _by_unit(context, share.plan, since, is_whole)
            with suppress(FileNotFoundError):  # another process has deleted the file while it was being written
                write_arrays(path, arrays)
                for file in path.parent.iterdir():  # changes up to other batches
                    if not file.name.endswith(ending):
                        file.unlink(missing_ok=True)
    mine = slice(*arrays["offsets"][share.unit : share.unit + 2])
    return Changes(arrays["keys"][mine], arrays["thresholds"][mine])


def _by_unit(context: AnswerContext, plan: TopkPlan, since: int, is_whole: bool) -> dict[str, np.ndarray]:
    """Return the changes of all units: offsets int64[units+1], and keys and thresholds in the order of units."""
    keys, thresholds = read_thresholds(Home(context.home), since, context.previous.batch_id, snapshot=is_whole)
    ended = ended_since(context, 0 if is_whole else since)
    if is_whole:  # the units have no index yet
        lives = ~is_among(keys, ended)
        keys, thresholds, ended = keys[lives], thresholds[lives], ended[:0]
    parts = [
        _pairs(context, plan, keys, thresholds),
        _pairs(context, plan, ended, np.full(len(ended), -np.inf, np.float32)),
    ]
    unit, keys, thresholds = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(unit, kind="stable")
    offsets = np.searchsorted(unit[order], np.arange(plan.units + 1))
    return {"offsets": offsets, "keys": keys[order], "thresholds": thresholds[order]}


def _pairs(context: AnswerContext, plan: TopkPlan, keys: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return a row for each unit that may hold one of some subscriptions (ascending): unit, key, threshold."""
    is_scored = context.queries().are_scored(keys)
    keys, thresholds = keys[is_scored], thresholds[is_scored]
    rows = [(np.empty(0, np.int64), keys[:0], thresholds[:0])]
    for some in _subscriptions(context, keys, thresholds):
        position, unit = plan.find_units(some.key, some.lon, some.lat, some.offsets, some.terms)
        rows.append((unit, some.key[position], some.threshold[position]))
    return tuple(np.concatenate(columns) for columns in zip(*rows, strict=True))


def _subscriptions(context: AnswerContext, keys: np.ndarray, thresholds: np.ndarray) -> Iterator[ScoredSubscriptions]:
    """Yield the scored subscriptions with these keys (int64[n], ascending), COMPARED at a time; without erased ones."""
    queries = context.queries()
    for first in range(0, len(keys), COMPARED):
        some = slice(first, first + COMPARED)
        is_known, chosen = queries.select(keys[some])
        yield as_subscriptions(chosen, thresholds[some][is_known], context.segments.weights)


def ended_since(context: AnswerContext, since: int) -> np.ndarray:
    """Return the keys of subscriptions that have ended after the batch `since`, up to the batch before: int64[n],
    ascending.

    since 0: all that have ended
    """
    last, requests, stream_time = context.previous, -1, names.NO_TIME
    if since:
        batch = read_batches(Home(context.home), since - 1, since)[0]
        requests = batch["requests_to"]
        stream_time = names.NO_TIME if batch["stream_time"] is None else to_micros(batch["stream_time"])
    return distinct_values(context.queries().ended((requests, last.requests_to), (stream_time, last.stream_time)))


NO_ANSWER = (
    "no topk subscription has an answer yet",
    f"run: pststream match, then plan again; the plan of regions is made with --kinds {names.REGION_KINDS}",
)


class DrawnTopk(NamedTuple):
    """Sampled subscriptions, stored objects as messages, and the live subscriptions for each sampled one."""

    subscriptions: ScoredSubscriptions
    messages: Messages
    scale: float

    @property
    def sample(self) -> TopkSample:
        """The sample of planners; messages have the words that a sampled subscription has, by which they are sent."""
        sent, is_word = self.messages, np.isin(self.messages.terms, self.subscriptions.terms)
        offsets = np.append(0, np.cumsum(is_word))[sent.offsets]
        routed = sent._replace(offsets=offsets, terms=sent.terms[is_word], weights=sent.weights[is_word])
        return as_sample(self.subscriptions, routed, self.scale)


def draw_topk_sample(home: Home, settings: Settings, progress: Progress) -> DrawnTopk:
    """Return a sample of the `topk` subscriptions and the objects of a home, which is locked.

    Raises UsageError if no such subscription has an answer yet.
    """
    last = Ledger(home).last_batch
    if last is None or not has_standing_queries(home, last["requests_to"]):
        raise UsageError(*NO_ANSWER)
    context = context_after(home, settings, last)
    draw = partial(_draw, context)
    ((subscriptions, scale),) = get_engine(settings, home).run_tasks([settings.sample_subscriptions], draw)
    if not len(subscriptions.key):
        raise UsageError(*NO_ANSWER)
    rows, _, _ = draw_objects(home, settings, (None, None), -1, progress)
    keys, lon, lat = (one_array(rows.column(name)).to_numpy() for name in ("object_key", "lon", "lat"))
    offsets, terms = csr(one_array(rows.column("terms")))
    messages = Messages(keys, keys, lon, lat, offsets, terms, context.segments.weights.of_terms(terms))
    progress(f"sample: {counted(len(subscriptions.key), 'subscription')}, {counted(len(keys), 'object')}")
    return DrawnTopk(subscriptions, messages, scale)


def _draw(context: AnswerContext, most: int) -> tuple[ScoredSubscriptions, float]:
    """Choose at most about `most` live subscriptions by a hash of their keys; return also the live ones for each."""
    queries, last = context.queries(), context.previous
    keys, thresholds = read_thresholds(Home(context.home), context.last_snapshot, last.batch_id, snapshot=True)
    is_live = queries.are_scored(keys) & ~is_among(keys, ended_since(context, 0))
    keys, thresholds = keys[is_live], thresholds[is_live]
    is_chosen = hash_to_unit(keys, SEED) < most / max(len(keys), 1)
    _, chosen = queries.select(keys[is_chosen])
    some = as_subscriptions(chosen, thresholds[is_chosen], context.segments.weights)
    return some, len(keys) / max(len(some.key), 1)


MESSAGES = 0
"""Tag of the objects that units receive."""

SEARCHED_MESSAGES = 65_536
"""Objects that a unit searches at a time."""


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
    with _own_folder(context.units_folder() / str(unit)) as folder:
        index = bring_up_unit(context, folder, UnitShare(plan, unit))
        brought_up = time.thread_time()
        weights = context.segments.weights
        for rows in _objects(received):
            objects += rows.num_rows
            searched = index.find_candidates(as_messages(rows, weights))
            verified = verify_scores(searched, rows, context.queries(), weights)
            candidates.append(that_meet_conditions(context, rows, verified))
    ended = time.thread_time()
    for values in candidates:
        columns = dict(zip(("subscription_key", "object_key", "ts", "value"), values, strict=True))
        yield from send_candidates(context.buckets, pa.record_batch(columns), SCORED_CANDIDATES)
    count = sum(len(values.subscription) for values in candidates)
    seconds = {"seconds": ended - began, "search_seconds": ended - brought_up}
    yield send_report(UnitReport(unit, objects, index.subscriptions, count, **seconds), UNIT_REPORT)


def _objects(received: ReceivedRows) -> Iterator[pa.RecordBatch]:
    """Yield the received objects, SEARCHED_MESSAGES or somewhat more at a time."""
    waiting = list[pa.RecordBatch]()
    for _, rows in received:
        waiting.append(rows)
        if sum(one.num_rows for one in waiting) >= SEARCHED_MESSAGES:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


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
    for some in _subscriptions(context, keys[is_new], thresholds[is_new]):
        index.insert(share.select(some))
    index.delete(changes.keys[~lives])
    folder.write(index, last.batch_id, last.started_at)
    return index
