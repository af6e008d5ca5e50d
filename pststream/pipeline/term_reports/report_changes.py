"""Compute how a micro-batch changes the reports of `frequent_terms` subscriptions, by questions about stored objects.

A report is a function of both logs up to the end of a batch, so the report before the batch is a question too: about
the objects up to the end of the batch before. Nothing else is kept. Once objects were removed, the report before the
batch is the one that was logged.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.domain.arrow_columns import TIME
from pststream.ledgers.withdrawals import WithdrawnObjects
from pststream.pipeline.term_reports.logged_reports import REPORT_ROWS, LoggedReports
from pststream.pipeline.term_reports.report_ticks import (
    MOST_BUCKETS,
    Intervals,
    Pairs,
    TickRanges,
    occupied_intervals,
    split_by_time,
    split_pairs,
    ticks_until,
)
from pststream.pipeline.term_reports.standing_regions import StandingRegions
from pststream.questions.open_snapshot import StoredSegments
from pststream.region_terms.shared_terms import answer_shared
from pststream.sorted_keys import is_among
from pststream.stored_objects.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.stored_objects.question_batch import take_regions

ENTERED, LEFT = "entered", "left"
CHANGES = pa.schema(
    [
        *[("event", pa.string()), ("subscription_key", pa.int64()), ("ts", TIME)],
        *[("rank", pa.int32()), ("term", pa.string()), ("count", pa.int64())],
    ]
)
"""Columns of changes: `ts` is the tick; `rank` is that in the report after the batch, or before it if the row left."""


@dataclass(frozen=True)
class ReportContext:
    """What the tasks of a batch need to know; small, since it travels with every task.

    segments           of stored objects
    objects_after, objects_to    key range of the objects of the batch
    requests_after     key of the last request before the batch
    stream_before, stream_time   stream time before the batch and after it, also if the object with it was erased since
    withdrawn_before, withdrawn  objects that do not count before the batch and after it
    logged             the reports before the batch, if objects were removed; the stored objects do not depend on it
    """

    segments: StoredSegments
    objects_after: int
    objects_to: int
    requests_after: int
    stream_before: int
    stream_time: int
    withdrawn_before: WithdrawnObjects
    withdrawn: WithdrawnObjects
    logged: LoggedReports | None = field(compare=False)


@dataclass(frozen=True)
class _Objects:
    """Stored objects as they count before the batch and after it, and those that make the difference.

    changed    those of the batch, and those that it withdraws
    is_lacking whether `changed` lacks some of the latter, whose rows were removed
    all        those that do not count too
    """

    before: ObjectSnapshot
    after: ObjectSnapshot
    changed: ObjectSnapshot
    is_lacking: bool
    all: ObjectSnapshot


def report_changes(context: ReportContext, asked: StandingRegions) -> Iterator[pa.RecordBatch]:
    """Yield the rows (CHANGES) by which the reports of some subscriptions change, a part of the ticks at a time."""
    if not len(asked.key):
        return
    objects = _open_objects(context)
    before = ticks_until(asked.created_at, asked.end_before, asked.step, context.stream_before)
    before = TickRanges(before.first, np.where(asked.key <= context.requests_after, before.last, before.first - 1))
    after = ticks_until(asked.created_at, asked.end_after, asked.step, context.stream_time)
    common = np.minimum(before.last, after.last)
    made, retracted = TickRanges(common + 1, after.last), TickRanges(common + 1, before.last)
    times = _occupied(context, objects.all, asked, made)
    for pairs in split_pairs(made, asked.step, asked.window, asked.k, times):
        yield _changes(asked, pairs, None, _ask(context, objects.after, context.objects_to, asked, pairs))
    for pairs in _split_logged(context, objects, asked, retracted):
        yield _changes(asked, pairs, _reports_before(context, objects, asked, pairs), None)
    for pairs in _touched(context, objects, asked, TickRanges(after.first, common)):
        rows_before = _reports_before(context, objects, asked, pairs)
        yield _changes(asked, pairs, rows_before, _ask(context, objects.after, context.objects_to, asked, pairs))


@lru_cache(maxsize=2)
def _open_objects(context: ReportContext) -> _Objects:
    stored = context.segments.open()
    before, after = (
        stored.without(withdrawn.keys) if withdrawn else stored
        for withdrawn in (context.withdrawn_before, context.withdrawn)
    )
    return _Objects(before, after, *_changed_objects(context, stored), stored)


def _changed_objects(context: ReportContext, stored: ObjectSnapshot) -> tuple[ObjectSnapshot, bool]:
    """Return the objects of the batch with those that it withdraws, and whether rows of the latter were removed."""
    gone = _withdrawn_by_batch(context)
    first, last = np.searchsorted(gone, stored.bounds[:, 2]), np.searchsorted(gone, stored.bounds[:, 3], "right")
    concerned = np.flatnonzero((stored.bounds[:, 3] > context.objects_after) | (first < last))
    changed, unchanged, lacking = ObjectSnapshot([stored.segments[place] for place in concerned]), [gone[:0]], len(gone)
    for one in changed.segments:
        is_gone = is_among(one.keys, gone)
        unchanged.append(one.keys[(one.keys <= context.objects_after) & ~is_gone])
        lacking -= int(is_gone.sum())
    return changed.without(np.sort(np.concatenate(unchanged))), lacking > 0


def _withdrawn_by_batch(context: ReportContext) -> np.ndarray:
    """Return the keys of the objects that the batch withdraws, ascending: int64[n]."""
    if context.withdrawn == context.withdrawn_before:
        return np.empty(0, np.int64)
    before = context.withdrawn_before
    return context.withdrawn.keys[~before.contain(context.withdrawn.keys)]


def _occupied(
    context: ReportContext, snapshot: ObjectSnapshot, asked: StandingRegions, ranges: TickRanges
) -> Intervals:
    """Return the times in the windows of the ticks that may have objects; without ticks no object is counted."""
    some, none = np.flatnonzero(ranges.last >= ranges.first), np.empty(0, np.int64)
    if not len(some) or not len(snapshot.segments):
        return Intervals(none, none)
    ends = [(ticks * asked.step)[some] for ticks in ranges]
    low = max(int(snapshot.bounds[:, 0].min()), int((ends[0] - asked.window[some]).min()))
    high = min(int(snapshot.bounds[:, 1].max()), int(ends[1].max()))
    if low > high:
        return Intervals(none, none)
    width = (high - low) // MOST_BUCKETS + 1
    return occupied_intervals(snapshot.count_by_time(low, high, width, context.objects_to), low, width)


def _touched(context: ReportContext, objects: _Objects, asked: StandingRegions, common: TickRanges) -> Iterator[Pairs]:
    """Yield the pairs that had a report before and have one after the batch, which the batch may change."""
    if objects.is_lacking:
        yield from _split_logged(context, objects, asked, common)
        return
    changed = _occupied(context, objects.changed, asked, common)
    if not len(changed.low):
        return
    # Ask for the subscriptions that a late or withdrawn object concerns, then for their ticks.
    some = np.flatnonzero((common.last >= common.first) & (common.last * asked.step >= changed.low[0]))
    for first in range(0, len(some), 50_000):
        owner = some[first : first + 50_000]
        span = (common.last - common.first)[owner] * asked.step[owner] + asked.window[owner]
        concerned = _has_changed_words(context, objects, asked, Pairs(owner, common.last[owner]), span)
        chosen = np.zeros(len(asked.key), bool)
        chosen[owner[concerned]] = True
        ranges = TickRanges(common.first, np.where(chosen, common.last, common.first - 1))
        for pairs in _split_in_spans(context, asked, ranges, changed):
            touched = _has_changed_words(context, objects, asked, pairs, asked.window[pairs.owner])
            if touched.any():
                yield Pairs(pairs.owner[touched], pairs.tick[touched])


def _split_logged(
    context: ReportContext, objects: _Objects, asked: StandingRegions, ranges: TickRanges
) -> Iterator[Pairs]:
    """Yield the ticks of ranges that may have had a report, some at a time."""
    times = _with_logged(context, asked, ranges, _occupied(context, objects.all, asked, ranges))
    yield from _split_in_spans(context, asked, ranges, times)


def _split_in_spans(
    context: ReportContext, asked: StandingRegions, ranges: TickRanges, times: Intervals
) -> Iterator[Pairs]:
    """Yield the ticks of ranges whose windows meet the times, so that each part reads a span of the logged reports."""
    of_each = asked.step, asked.window, asked.k, times
    for some in [ranges] if context.logged is None else split_by_time(ranges, *of_each):
        yield from split_pairs(some, *of_each)


def _with_logged(context: ReportContext, asked: StandingRegions, ranges: TickRanges, times: Intervals) -> Intervals:
    """Add the ticks of ranges that have a logged report, whose objects may be removed, to the times with objects."""
    some = np.flatnonzero(ranges.last >= ranges.first)
    if context.logged is None or not len(some):
        return times
    first, last = ((ticks * asked.step)[some] for ticks in ranges)
    ticks = context.logged.ticks(asked.key[some], int(first.min()), int(last.max()))
    place = np.searchsorted(times.low, ticks, "right")
    alone = ticks[ticks > np.append(names.NO_TIME, times.high)[place]]
    low, high = (np.concatenate([edges, alone]) for edges in times)
    return Intervals(np.sort(low), np.sort(high))


def _reports_before(context: ReportContext, objects: _Objects, asked: StandingRegions, pairs: Pairs) -> pa.RecordBatch:
    """Return the reports before the batch of some pairs: rows of REPORT_ROWS."""
    if context.logged is None:
        return _ask(context, objects.before, context.objects_after, asked, pairs)
    return context.logged.reports(asked.key[pairs.owner], pairs.tick * asked.step[pairs.owner])


def _has_changed_words(
    context: ReportContext, objects: _Objects, asked: StandingRegions, pairs: Pairs, window: np.ndarray
) -> np.ndarray:
    """Return whether a changed object of the region has a word, in a window (int64[n]) up to a tick: bool[n]."""
    has_words = np.zeros(len(pairs.owner), bool)
    rows = _ask(context, objects.changed, context.objects_to, asked, pairs, window, 1)
    has_words[rows.column("pair").to_numpy()] = True
    return has_words


def _ask(
    context: ReportContext,
    snapshot: ObjectSnapshot,
    up_to_key: int,
    asked: StandingRegions,
    pairs: Pairs,
    window: np.ndarray | None = None,
    most: int | None = None,
) -> pa.RecordBatch:
    """Return the terms of each pair, of objects up to a key: rows of REPORT_ROWS; `most` of them, None: k."""
    owner, up_to = pairs.owner, pairs.tick * asked.step[pairs.owner]
    after = up_to - (asked.window[owner] if window is None else window)
    limits = asked.k[owner] if most is None else np.full(len(owner), most)
    answered = answer_shared(
        snapshot,
        take_regions(asked.regions, owner),
        np.column_stack([after, np.full(len(owner), LAST_KEY)]),
        np.column_stack([up_to, np.full(len(owner), up_to_key)]),
        limits.astype(np.int64),
    )
    columns = {"pair": answered.question, "rank": answered.rank, **answered.columns}
    return pa.RecordBatch.from_pydict({field.name: columns[field.name] for field in REPORT_ROWS}, schema=REPORT_ROWS)


def _changes(
    asked: StandingRegions, pairs: Pairs, before: pa.RecordBatch | None, after: pa.RecordBatch | None
) -> pa.RecordBatch:
    """Return the rows that one side has and the other lacks: pair, term and count decide."""
    none = pa.RecordBatch.from_pylist([], REPORT_ROWS)
    sides = [none if before is None else before, none if after is None else after]
    rows = pa.concat_batches(sides)
    entered = np.arange(rows.num_rows) >= sides[0].num_rows
    pair = rows.column("pair").to_numpy()
    if before is not None and after is not None:
        term = rows.column("term").dictionary_encode().indices.to_numpy()
        count = rows.column("count").to_numpy()
        order = np.lexsort((count, term, pair))
        same = np.ones(max(len(order) - 1, 0), bool)
        for values in (pair[order], term[order], count[order]):
            same &= values[1:] == values[:-1]
        kept = np.ones(len(order), bool)
        kept[order[1:][same]] = kept[order[:-1][same]] = False
        rows, entered, pair = rows.filter(pa.array(kept)), entered[kept], pair[kept]
    owner = pairs.owner[pair]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([LEFT, ENTERED]).take(pa.array(entered.astype(np.int8))),
            pa.array(asked.key[owner]),
            pa.array(pairs.tick[pair] * asked.step[owner]).cast(CHANGES.field("ts").type),
            rows.column("rank").cast(pa.int32()),
            rows.column("term"),
            rows.column("count"),
        ],
        schema=CHANGES,
    )
