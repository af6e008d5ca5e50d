"""Fold the candidates of a batch into the answers of one bucket, and write what changes (after the second shuffle).

The state of a bucket is a file of the node that contains committed batches only: a task first applies the rows of
`answer_log` that the file lacks, then computes the rows of this batch against it. A file that is missing, torn or of
another home is built from the last snapshot and the log after it. So a task may run again, on any node, with the same
result.
"""

import pickle
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.answers.bucket_file import BucketState, key_order, open_bucket
from pststream.answers.contract import BatchEnd, Subscriptions, Values, bucket_of
from pststream.answers.fold import Deletions, advance, fold, fold_answers, split_asked
from pststream.base import names
from pststream.base.arrays import distinct_values, is_among, offsets_of
from pststream.engine.contract import ReceivedRows, SentRows
from pststream.pipeline.answers.answer_context import AnswerContext, Position
from pststream.pipeline.answers.bucket_snapshots import build_state, with_logged_boundaries, write_boundaries
from pststream.pipeline.answers.log_rows import FoldedWriter, read_state
from pststream.pipeline.answers.ranked_kinds import RANKED_KINDS, SCORED_KIND_NAME, RankedQuestions
from pststream.pipeline.answers.scored_candidates import drop_other_units, drop_scored_index, find_scored_candidates
from pststream.pipeline.answers.standing_queries import Queries, StandingQueries, take_queries, verified_queries
from pststream.queries.kinds.registry import ranked_answers
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.question_batch import Clauses
from pststream.search.stored_conditions import ConditionLog
from pststream.state.data_files import DataFile
from pststream.state.home import Home
from pststream.tables.ledgers import AnswerCounts, read_batches


def ask_objects(
    snapshot: ObjectSnapshot, queries: Queries, kept: np.ndarray, end: BatchEnd, conditions: ConditionLog
) -> Values:
    """Return the `kept` best objects of each query as of the end of a batch, fewer if fewer count, in any order.

    The values and the order of ties are those of questions of the kinds, in float32.

    kept  int32[n]  number of values for each query
    """
    parts = []
    for index, name in enumerate(ranked_answers()):
        rows = np.flatnonzero(queries.kind == index)
        chosen = take_queries(queries, rows)
        up_to = np.tile(np.array([end.stream_time, end.last_object], np.int64), (len(rows), 1))
        asked = RankedQuestions(
            chosen.numbers, kept[rows].astype(np.int64), _clauses(chosen), windows_start(chosen, end), up_to,
            verified_queries(chosen, conditions.asked(chosen.key)),
        )  # fmt: skip
        best = RANKED_KINDS[name].find_best(snapshot, asked)
        parts.append(Values(chosen.key[best.question], best.key, best.ts, best.value))
    return _join(parts)


def _clauses(queries: Queries) -> Clauses:
    """Return the clauses; none of a query without keywords, which has one clause of the term of every object."""
    kept = queries.terms[queries.literal_offsets[:-1]] != names.EVERY_OBJECT
    return Clauses(
        offsets_of(kept)[queries.clause_offsets],
        offsets_of(np.diff(queries.literal_offsets)[kept]),
        queries.terms[queries.terms != names.EVERY_OBJECT],
    )


def windows_start(queries: Queries, end: BatchEnd) -> np.ndarray:
    """Return (ts, key) after which objects count for each query: int64[n,2]."""
    after = np.full((len(queries.key), 2), LAST_KEY, np.int64)
    has_window = (queries.window_micros > 0) | (queries.window_objects > 0)
    after[:, 0] = np.where(has_window, names.NO_TIME, queries.created_at - 1)
    timed = queries.window_micros > 0
    after[timed, 0] = np.maximum(end.stream_time - queries.window_micros[timed], names.NO_TIME)
    counted = np.flatnonzero(queries.window_objects > 0)
    if len(counted):
        after[counted] = end.boundaries[np.searchsorted(end.windows, queries.window_objects[counted])]
    return after


CANDIDATES, LATEST, WORKER_REPORT, SCORED_CANDIDATES, UNIT_REPORT = range(5)
"""Tags of received rows: candidates of the worker index (subscription_key, object_key, ts, lon, lat); the greatest ts
of objects of the batch, in the column `ts`; a pickled report of a worker, in the column `report`; candidates of a unit
of the plan of `topk` (subscription_key, object_key, ts, value); a pickled report of a unit, in the column `report`.
"""

ASKED = 100_000
"""Subscriptions that are evaluated at a time, at most."""

ASKED_VALUES = 2_000_000
"""The best values for which an evaluation has room; a single subscription may keep more. Its rows are written before
the next evaluation, so a task keeps no more of them however many subscriptions a batch starts.
"""


@dataclass(frozen=True)
class UnitReport:
    """What a unit of the plan of `topk` did in a batch.

    objects          that it received
    subscriptions    in its index
    candidates       that it found
    seconds          CPU seconds: to bring up its index, and of the search
    search_seconds   CPU seconds of the search alone
    """

    unit: int
    objects: int
    subscriptions: int
    candidates: int
    seconds: float
    search_seconds: float


@dataclass
class BucketReport:
    """The result that the task of one bucket returns to the driver.

    files    data files of `answer_log`, not yet committed
    counts   of the bucket, by kind
    seconds  CPU seconds of each step: advance, search, fold, evaluate, write
    workers  reports of workers that this task received
    units    reports of units of the plan of `topk` that it received
    """

    bucket: int
    files: list[DataFile] = field(default_factory=list)
    counts: AnswerCounts = field(default_factory=AnswerCounts)
    seconds: dict[str, float] = field(default_factory=dict)
    workers: list[Any] = field(default_factory=list)
    units: list[UnitReport] = field(default_factory=list)


def send_candidates(buckets: int, rows: pa.RecordBatch, tag: int = CANDIDATES) -> Iterator[SentRows]:
    """Send candidates to the buckets of their subscriptions."""
    bucket = bucket_of(rows.column("subscription_key").to_numpy(), buckets)
    order = np.argsort(bucket, kind="stable")
    borders = np.searchsorted(bucket[order], np.arange(buckets + 1))
    for ordinal in range(buckets):
        mine = order[borders[ordinal] : borders[ordinal + 1]]
        if len(mine):
            yield ordinal, tag, rows.take(pa.array(mine))


def send_latest(buckets: int, latest: Iterable[int]) -> Iterator[SentRows]:
    """Send the greatest ts of the objects of the batch to every bucket, so that each of them runs."""
    rows = pa.record_batch({"ts": pa.array([max(latest, default=names.NO_TIME)], pa.int64())})
    return ((bucket, LATEST, rows) for bucket in range(buckets))


def send_report(report: object, tag: int = WORKER_REPORT) -> SentRows:
    """Send the report of a worker or unit to a bucket, which returns it to the driver."""
    return 0, tag, pa.record_batch({"report": [pickle.dumps(report)]})


def fold_bucket(context: AnswerContext, bucket: int, received: ReceivedRows) -> BucketReport:
    """Fold what the batch changes for a bucket, and write it as data files of `answer_log`."""
    report = BucketReport(bucket)
    steps = _CpuSteps(report.seconds)
    candidates, scored, latest = _receive(received, report)
    queries, position = context.queries(), context.end(latest)
    with open_previous_state(context, bucket, queries) as state:
        inserted, deleted = _requests(queries, bucket, context, state, position)
        end = context.batch_end(position, _windows(state, inserted))
        steps.end("advance")
        values = [no_values(), *_indexed_values(queries, candidates, report.counts.candidates)]
        steps.end("fold")
        drop_other_units(context)
        if context.reevaluate or context.topk_version is not None:
            # It may show the place and words of an erased subscription, or the plan of `topk` has taken its place.
            drop_scored_index(context.index_folder(bucket))
        if context.topk_version is None and context.seeks_scored:
            scored = list(find_scored_candidates(context, bucket, state, queries))
        report.counts.candidates[SCORED_KIND_NAME] = sum(len(part.subscription) for part in scored)
        values += scored
        steps.end("search")
        folded = fold(state, inserted, deleted, _join(values), end, _reevaluated(context, state, queries))
        report.counts.evaluations = _count_by_kind(queries, folded.asked.subscription)
        steps.end("fold")
        written = FoldedWriter(Home(context.home), context.batch_id, bucket)
        for part in split_asked(folded, ASKED, ASKED_VALUES):
            answers = no_values()
            if len(part.asked.subscription):
                is_known, chosen = queries.select(part.asked.subscription)
                kept = part.asked.kept[is_known]
                answers = ask_objects(context.snapshot(position), chosen, kept, end, context.conditions)
            steps.end("evaluate")
            whole = fold_answers(state, part, answers)
            report.counts.changes.update(_count_by_kind(queries, whole.changes.subscription))
            steps.end("fold")
            written.write(whole)
            steps.end("write")
    report.files = written.close() + write_boundaries(Home(context.home), bucket, end)
    steps.end("write")
    return report


class _CpuSteps:
    """Adds the CPU seconds of this thread in each step to `seconds`."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds, self._since = seconds, time.thread_time()

    def end(self, step: str) -> None:
        now = time.thread_time()
        self._seconds[step] = self._seconds.get(step, 0.0) + now - self._since
        self._since = now


def _reevaluated(context: AnswerContext, state: BucketState, queries: StandingQueries) -> bool | np.ndarray:
    """Return the keys of the subscriptions that are evaluated again; True: all."""
    if context.reevaluate or not context.reweighed:
        return context.reevaluate
    keys = state.columns.key
    return keys[queries.are_scored(keys)]


def _count_by_kind(queries: StandingQueries, subscription: np.ndarray) -> Counter[str]:
    """Count rows by the kind of their subscriptions; subscription int64[n]: keys, equal ones side by side.

    Rows of erased subscriptions, whose kind is no longer known, count as those of the first kind.
    """
    first = np.flatnonzero(np.diff(subscription, prepend=-1))
    rows = np.diff(first, append=len(subscription))
    kinds = np.maximum(queries.kinds(subscription[first]), 0)
    counts = np.bincount(kinds, rows, len(ranked_answers())).astype(np.int64)
    return Counter(dict(zip(ranked_answers(), counts.tolist(), strict=True)))


def _receive(received: ReceivedRows, report: BucketReport) -> tuple[list[pa.RecordBatch], list[Values], int]:
    """Return the candidates of the worker index, those of units of the plan of `topk`, and the greatest ts of the
    objects of the batch; keep the reports of workers and units.
    """
    candidates, scored, latest = [], list[Values](), names.NO_TIME
    for tag, rows in received:
        if tag == CANDIDATES:
            candidates.append(rows)
        elif tag == SCORED_CANDIDATES:
            scored.append(Values._make(column.to_numpy() for column in rows.columns))
        elif tag == LATEST:
            latest = max(latest, rows.column("ts")[0].as_py())
        else:
            reports = report.units if tag == UNIT_REPORT else report.workers
            reports += [pickle.loads(one) for one in rows.column("report").to_pylist()]
    if report.units:
        report.seconds["search"] = sum(unit.seconds for unit in report.units)
    return candidates, scored, latest


def open_previous_state(context: AnswerContext, bucket: int, queries: StandingQueries) -> BucketState:
    """Return the state of a bucket at the end of the batch before, open and locked; built if the node lacks it."""
    last, path, home = context.previous, context.bucket_file(bucket), Home(context.home)
    state = open_bucket(path)
    if state is not None and not context.continues(state.batch_id, state.started_at):
        state.close()
        state = None
    if state is None:
        drop_scored_index(context.index_folder(bucket))  # after a restore a key may be that of another subscription
        state = build_state(home, path, queries, bucket, context.last_snapshot)
    if state.batch_id < last.batch_id:
        inserted, deleted = _requests(queries, bucket, context, state, last)
        keys = [state.columns.key, inserted.key]
        logged = read_state(home, bucket, state.batch_id, last.batch_id, keys)
        end = with_logged_boundaries(home, bucket, context.batch_end(last, _windows(state, inserted)))
        if state.batch_id < last.batch_id - 1:
            lived = distinct_values(np.concatenate(keys))
            logged = (part._replace(entries=_that_count(queries, part.entries, end, lived)) for part in logged)
        advance(state, inserted, deleted, logged, end)
    return state


def _requests(
    queries: StandingQueries, bucket: int, context: AnswerContext, state: BucketState, end: Position
) -> tuple[Subscriptions, Deletions]:
    """Return what the requests after those of the state insert and delete, up to a position.

    If stream time falls, all requests: a subscription that had ended may live again.
    """
    if end.stream_time < state.stream_time:
        after = 0
    elif end.batch_id == state.batch_id + 1:
        after = end.requests_after
    else:
        after = read_batches(Home(context.home), state.batch_id - 1, state.batch_id)[0]["requests_to"]
    inserted = queries.insertions(after, end.requests_to, bucket, context.buckets)
    return inserted, queries.deletions(after, end.requests_to)


def _that_count(queries: StandingQueries, entries: Values, end: BatchEnd, lived: np.ndarray) -> Values:
    """Return the entries of several batches that are still in the windows of their subscriptions, which are in `lived`.

    lived: int64[n], ascending; another subscription has lived again after a withdrawal, and ended in these batches
    """
    lives = is_among(entries.subscription, lived)
    entries = Values(*(column[lives] for column in entries))
    keys, subscription = np.unique(entries.subscription, return_inverse=True)
    is_known, chosen = queries.select(keys)
    after = np.full((len(keys), 2), names.MAX_INT64)
    after[is_known] = windows_start(chosen, end)
    after_ts, after_key = after[subscription].T
    counts = (entries.ts > after_ts) | ((entries.ts == after_ts) & (entries.object > after_key))
    return Values(*(column[counts] for column in entries))


def _windows(state: BucketState, inserted: Subscriptions) -> np.ndarray:
    """Return the lengths of all count windows: int64[w], ascending."""
    seen = np.concatenate([_distinct(state.columns.window_objects), _distinct(inserted.window_objects)])
    lengths = distinct_values(seen)
    return lengths[lengths > 0]


def _distinct(values: np.ndarray) -> np.ndarray:
    """Return the values that occur, each once, in any order."""
    # Most are as the one before; few differ, so a table of those seen is faster than a sort.
    starts = values[np.append(True, values[1:] != values[:-1])[: len(values)]]
    return np.asarray(pc.unique(pa.array(starts)))


def _indexed_values(
    queries: StandingQueries, candidates: list[pa.RecordBatch], counts: Counter[str]
) -> Iterator[Values]:
    """Yield the values of candidates that the worker index finds, by kind and subscription; count them by kind."""
    if not candidates:
        return
    rows = pa.concat_batches(candidates)
    order = key_order(rows.column("subscription_key").to_numpy())
    subscription, object_key, ts, lon, lat = (rows.column(position).to_numpy()[order] for position in range(5))
    is_first = np.diff(subscription, prepend=-1) != 0
    position = np.cumsum(is_first) - 1
    kinds, numbers = queries.numbers(subscription[is_first])
    for kind, (name, answers) in enumerate(ranked_answers().items()):
        indexed = RANKED_KINDS[name].indexed
        if indexed is None:
            continue
        # Most homes have one such kind: its rows are not copied.
        own = slice(None) if (kinds == kind).all() else np.flatnonzero(kinds[position] == kind)
        of_rows = np.ascontiguousarray(numbers[:, : len(answers.numbers)])[position[own]]
        value = indexed.values(of_rows, lon[own], lat[own])
        values = Values(subscription[own], object_key[own], ts[own], value)
        counts[name] = len(value)
        is_near = ~np.isnan(value)
        yield values if is_near.all() else Values(*(column[is_near] for column in values))


def _join(parts: list[Values]) -> Values:
    return Values(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def no_values() -> Values:
    """Return no rows."""
    return Values(*(np.empty(0, kind) for kind in (np.int64, np.int64, np.int64, np.float32)))
