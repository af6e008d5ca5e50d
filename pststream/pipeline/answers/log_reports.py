"""Log what a micro-batch changes in the reports of `frequent_terms` subscriptions, in one commit of `answer_log`.

All subscriptions and ticks of the batch are questions about stored objects, asked in tasks of the engine. A task reads
the subscriptions of its share, and writes its rows as it goes, a part of the ticks at a time. Nothing but the two logs
decides the rows, so a step that was killed runs again with the same result.

A report is a function of both logs up to the end of a batch, so the report before the batch is a question too: about
the objects up to the end of the batch before. Nothing else is kept. Once objects were removed, the report before the
batch is the one that was logged.

Ticks are the multiples of the step since 1970, numbered by their quotient. A subscription has a report at each tick m
with `created_at` <= m < its end and m <= stream time, whose window (m - window, m] has an object with words that count.
After such a tick, the first one without words has an empty report: a row with NO_WORD. All times are microseconds.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pststream.answers.contract import as_numbers, bucket_of, remaining_rows
from pststream.base import names
from pststream.base.arrays import distinct_values, is_among
from pststream.base.arrow_columns import TIME
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import cache_place
from pststream.pipeline.answers.log_rows import CHANGE, ENTERED, LEFT, SCHEMA, complete_rows, slices_of
from pststream.pipeline.answers.standing_regions import RegionLog, RegionShare, StandingRegions, list_regions
from pststream.queries.kinds.frequent_terms import NAME
from pststream.search.answerers import read_stop_words
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.open_snapshot import StoredSegments, list_segments
from pststream.search.question_batch import take_regions
from pststream.search.region_terms import answer_shared
from pststream.search.reported_terms import reported_objects
from pststream.search.stored_conditions import ConditionLog, list_conditions
from pststream.settings import Settings
from pststream.state.data_files import DataFile, FileWriter, commit_files, list_data_files
from pststream.state.erasures import count_removals
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.tables.ledgers import AnswerCounts
from pststream.tables.log_events import WithdrawnRows, withdrawn_objects

MOST_BUCKETS = 1 << 16
"""Parts of time, each of which has objects or not."""

PAIRS = 20_000
"""Pairs of a subscription and a tick that are asked about at a time."""

ROWS = 1_000_000
"""Rows that the reports of these pairs have at most; a single report may have more."""


class TickRanges(NamedTuple):
    """For each subscription the ticks from `first` to `last`, int64[n] each; none if `last` is less."""

    first: np.ndarray
    last: np.ndarray


class Intervals(NamedTuple):
    """Ascending disjoint intervals from `low` to `high`, int64[n] each, both ends included."""

    low: np.ndarray
    high: np.ndarray


class Pairs(NamedTuple):
    """Pairs of a subscription (index) and a tick: int64[n] each."""

    owner: np.ndarray
    tick: np.ndarray


def ticks_until(created_at: np.ndarray, end_at: np.ndarray, step: np.ndarray, stream_time: int) -> TickRanges:
    """Return the ticks at which subscriptions live and that stream time has reached."""
    first = -(-created_at // step)
    last = np.minimum(stream_time // step, -(-end_at // step) - 1)
    return TickRanges(first, np.maximum(last, first - 1))


def occupied_intervals(counts: np.ndarray, low: int, width: int) -> Intervals:
    """Return the times that may have objects, of counts (int64[n]) of objects by (ts - low) // width."""
    positions = np.flatnonzero(counts)
    begins = np.flatnonzero(np.append(True, np.diff(positions) > 1)[: len(positions)])
    ends = np.append(begins[1:], len(positions))[: len(begins)] - 1
    return Intervals(low + positions[begins] * width, low + (positions[ends] + 1) * width - 1)


def ticks_of_intervals(times: Intervals, step: int, window: int) -> Intervals:
    """Return the ticks whose window, (tick - window, tick], meets one of the intervals of times."""
    low, high = -(-times.low // step), -(-(times.high + window) // step) - 1
    if not len(low):
        return Intervals(low, high)
    high = np.maximum.accumulate(high)
    begins = np.flatnonzero(np.append(True, low[1:] > high[:-1] + 1))
    return Intervals(low[begins], high[np.append(begins[1:], len(low)) - 1])


def split_by_time(
    ranges: TickRanges, step: np.ndarray, window: np.ndarray, rows: np.ndarray, times: Intervals
) -> Iterator[TickRanges]:
    """Yield the ticks of ranges whose windows may have objects, and others, in spans of time, the earliest first.

    A span has at most PAIRS ticks and their reports at most ROWS rows, unless it is a single moment. The other
    arguments: see `split_pairs`.
    """
    if not len(step):
        return
    # The windows of other moments have no object, whatever the subscription.
    moments = ticks_of_intervals(times, 1, int(window.max()))
    for low, high in zip(*(edges.tolist() for edges in moments)):
        left = TickRanges(np.maximum(ranges.first, -(-low // step)), np.minimum(ranges.last, high // step))
        while (left.last >= left.first).any():
            up_to = _end_of_span(left, step, rows)
            yield TickRanges(left.first, np.minimum(left.last, up_to // step))
            left = left._replace(first=np.maximum(left.first, up_to // step + 1))


def _end_of_span(left: TickRanges, step: np.ndarray, rows: np.ndarray) -> int:
    """Return the last moment of the next span of the ticks that are left, of which there is one."""
    some = np.flatnonzero(left.last >= left.first)
    first, last, step, rows = left.first[some], left.last[some], step[some], rows[some]
    least, greatest = int((first * step).min()), int((last * step).max())
    while least < greatest:
        middle = (least + greatest + 1) // 2
        ticks = np.maximum(np.minimum(last, middle // step) - first + 1, 0)
        if ticks.sum() <= PAIRS and (ticks * rows).sum() <= ROWS:
            least = middle
        else:
            greatest = middle - 1
    return least


def split_pairs(
    ranges: TickRanges, step: np.ndarray, window: np.ndarray, rows: np.ndarray, times: Intervals
) -> Iterator[Pairs]:
    """Yield the ticks of ranges whose windows may have objects, some at a time: see PAIRS and ROWS.

    step, window, rows   int64[n] of each subscription; `rows`: the most that a report has
    """
    waiting, waiting_pairs, waiting_rows = list[Pairs](), 0, 0
    for pairs in _split_by_step(ranges, step, window, rows, times):
        most = int(rows[pairs.owner].sum())
        if waiting and (waiting_pairs + len(pairs.owner) > PAIRS or waiting_rows + most > ROWS):
            yield Pairs(*np.hstack(waiting))
            waiting, waiting_pairs, waiting_rows = [], 0, 0
        waiting.append(pairs)
        waiting_pairs, waiting_rows = waiting_pairs + len(pairs.owner), waiting_rows + most
    if waiting:
        yield Pairs(*np.hstack(waiting))


def _split_by_step(
    ranges: TickRanges, step: np.ndarray, window: np.ndarray, rows: np.ndarray, times: Intervals
) -> Iterator[Pairs]:
    """Yield what `split_pairs` does, the subscriptions of each step and window apart."""
    for step_, window_ in np.unique(np.column_stack([step, window]), axis=0).tolist():
        owners = np.flatnonzero((step == step_) & (window == window_) & (ranges.last >= ranges.first))
        ticks = ticks_of_intervals(times, step_, window_)
        if not len(owners) or not len(ticks.low):
            continue
        # Number the ticks of the intervals one after the other: a range of ticks is a range of these numbers.
        lengths = ticks.high - ticks.low + 1
        starts = np.append(0, np.cumsum(lengths))
        begin, stop = (_ticks_before(ticks, starts, edge) for edge in (ranges.first[owners], ranges.last[owners] + 1))
        totals = np.append(0, np.cumsum(stop - begin))
        edge = 0
        while edge < totals[-1]:
            after = _end_of_part(edge, totals, rows[owners])
            pair = np.arange(edge, after)
            owner = np.searchsorted(totals, pair, "right") - 1
            ordinal = begin[owner] + pair - totals[owner]
            index = np.searchsorted(starts, ordinal, "right") - 1
            yield Pairs(owners[owner], ticks.low[index] + ordinal - starts[index])
            edge = after


def _end_of_part(edge: int, totals: np.ndarray, rows: np.ndarray) -> int:
    """Return the pair after a part that begins with pair `edge`.

    totals   int64[n+1]  pairs before each subscription, and all of them
    rows     int64[n]    the most that a report of each has
    """
    before = np.append(0, np.cumsum(np.diff(totals) * rows))
    owner = int(np.searchsorted(totals, edge, "right")) - 1
    most = before[owner] + (edge - totals[owner]) * rows[owner] + ROWS
    last = int(np.searchsorted(before, most, "right")) - 1
    end = totals[-1] if last == len(rows) else totals[last] + (most - before[last]) // rows[last]
    return max(edge + 1, min(edge + PAIRS, int(end)))


def _ticks_before(ticks: Intervals, starts: np.ndarray, tick: np.ndarray) -> np.ndarray:
    """Return how many ticks of the intervals come before each tick: int64[n]."""
    index = np.searchsorted(ticks.low, tick, "right") - 1
    inside = np.minimum(tick - ticks.low[index], ticks.high[index] - ticks.low[index] + 1)
    return np.where(index < 0, 0, starts[index] + inside)


_NAMES = ["batch_id", "event", "subscription_key", "object_key", "ts", "term", "count"]
_SCHEMA = pa.schema([SCHEMA.field(name) for name in _NAMES])
_TICK_NAMES = ["batch_id", "subscription_key", "object_key", "ts"]

REPORT_ROWS = pa.schema([("pair", pa.int64()), ("rank", pa.int64()), ("term", pa.string()), ("count", pa.int64())])
"""Columns of the rows of reports; `pair`: index of the pair of a subscription and a tick."""


@dataclass(frozen=True)
class LoggedReports:
    """The changes of reports that the batches before a batch have logged; small, since it travels with every task.

    Row groups are passed over by the ticks that they have, so a batch reads only the ticks that it may change.

    files     data files of `answer_log` that may have rows of reports
    up_to     the last batch before
    """

    files: tuple[tuple[DataFile, Slice], ...]
    up_to: int

    def ticks(self, keys: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return the ticks from `first` to `last` at which some subscriptions (int64[n]) have rows: int64[m].

        Ticks are microseconds, ascending.
        """
        parts = [np.empty(0, np.int64)]
        for rows in self._read(_TICK_NAMES, distinct_values(keys), first, last):
            parts.append(distinct_values(as_numbers(rows.column("ts"))))
        return distinct_values(np.concatenate(parts))

    def reports(self, keys: np.ndarray, ticks: np.ndarray) -> pa.RecordBatch:
        """Return the report of each pair of a subscription and a tick (int64[n] each, microseconds): REPORT_ROWS."""
        known, moments = distinct_values(keys), distinct_values(ticks)
        codes = np.searchsorted(known, keys) * len(moments) + np.searchsorted(moments, ticks)
        order = np.argsort(codes)
        parts, pairs = list[pa.Table](), [np.empty(0, np.int64)]
        for rows in self._read(_NAMES, known, int(moments[0]), int(moments[-1])):
            ts = as_numbers(rows.column("ts"))
            index = np.minimum(np.searchsorted(moments, ts), len(moments) - 1)
            code = np.searchsorted(known, as_numbers(rows.column("subscription_key"))) * len(moments) + index
            pair = np.minimum(np.searchsorted(codes, code, sorter=order), len(codes) - 1)
            is_asked = (moments[index] == ts) & (codes[order[pair]] == code)
            parts.append(rows.filter(pa.array(is_asked)))
            pairs.append(order[pair[is_asked]])
        logged = pa.concat_tables([_SCHEMA.empty_table(), *parts])
        positions = remaining_rows(logged, names.NO_TIME)
        return _rank(np.concatenate(pairs)[positions], logged.take(pa.array(positions)))

    def _read(self, columns: list[str], keys: np.ndarray, first: int, last: int) -> Iterator[pa.Table]:
        """Yield columns of the rows of reports of some subscriptions (ascending) at ticks from `first` to `last`."""
        slices = [
            one
            for file, one in self.files
            if file.may_contain("ts", first, last) and file.may_contain("subscription_key", int(keys[0]), int(keys[-1]))
        ]
        schema = pa.schema([_SCHEMA.field(name) for name in columns])
        for batch in read_slices(slices, columns, KeyRange("ts", first - 1, last)):
            rows = pa.table(batch).cast(schema)
            key, batch_id = as_numbers(rows.column("subscription_key")), as_numbers(rows.column("batch_id"))
            is_report = as_numbers(rows.column("object_key")) < 0
            yield rows.filter(pa.array(is_report & np.isin(key, keys) & (batch_id <= self.up_to)))


def open_logged_reports(home: Home, batch_id: int) -> LoggedReports | None:
    """Return the reports that the batches before a batch have logged; None if no row of the logs was ever removed: then
    questions about stored objects return the same.
    """
    if not count_removals(home):
        return None
    logged = KeyRange("batch_id", -1, batch_id - 1).files(list_data_files(home, names.ANSWER_LOG))
    # Only rows of reports have a count, and a file without a value has no bounds of the column.
    files = [file for file in logged if "count" in file.low]
    return LoggedReports(tuple(zip(files, slices_of(home, files), strict=True)), batch_id - 1)


def _rank(pair: np.ndarray, rows: pa.Table) -> pa.RecordBatch:
    """Return the rows of reports by pair (int64[n]) and rank: the greatest count, then the first word."""
    order = np.lexsort((as_numbers(rows.column("term")), -rows.column("count").to_numpy(), pair))
    pair, rows = pair[order], rows.take(pa.array(order))
    first = np.searchsorted(pair, pair)
    columns = [pa.array(pair), pa.array(np.arange(len(pair)) - first + 1)]
    columns += [pa.concat_arrays(rows.column(name).chunks) for name in ("term", "count")]
    return pa.RecordBatch.from_arrays(columns, schema=REPORT_ROWS)


NO_WORD = ""
"""The word of the only row of an empty report, whose count is 0."""

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
    conditions         of the subscriptions
    """

    segments: StoredSegments
    objects_after: int
    objects_to: int
    requests_after: int
    stream_before: int
    stream_time: int
    withdrawn_before: WithdrawnRows
    withdrawn: WithdrawnRows
    logged: LoggedReports | None = field(compare=False)
    conditions: ConditionLog


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
    for pairs in split_pairs(made, asked.step, _reach(asked), asked.most, times):
        yield _changes(asked, pairs, None, _reports(context, objects.after, context.objects_to, asked, pairs))
    for pairs in _split_logged(context, objects, asked, retracted):
        yield _changes(asked, pairs, _reports_before(context, objects, asked, pairs), None)
    for pairs in _touched(context, objects, asked, TickRanges(after.first, common)):
        rows_before = _reports_before(context, objects, asked, pairs)
        yield _changes(asked, pairs, rows_before, _reports(context, objects.after, context.objects_to, asked, pairs))


def _reach(asked: StandingRegions) -> np.ndarray:
    """Return how long before its tick an object may change a report: the tick before counts too. int64[n]"""
    return asked.window + asked.step


@lru_cache(maxsize=2)
def _open_objects(context: ReportContext) -> _Objects:
    stored = reported_objects(context.segments.open())
    before, after = (
        stored.without(withdrawn.keys) if withdrawn else stored
        for withdrawn in (context.withdrawn_before, context.withdrawn)
    )
    return _Objects(before, after, *_changed_objects(context, stored), stored)


def _changed_objects(context: ReportContext, stored: ObjectSnapshot) -> tuple[ObjectSnapshot, bool]:
    """Return the objects of the batch with those that it withdraws, and whether rows of the latter were removed."""
    gone = np.empty(0, np.int64)
    if context.withdrawn != context.withdrawn_before:
        gone = context.withdrawn.keys[~context.withdrawn_before.contain(context.withdrawn.keys)]
    first, last = np.searchsorted(gone, stored.bounds[:, 2]), np.searchsorted(gone, stored.bounds[:, 3], "right")
    concerned = np.flatnonzero((stored.bounds[:, 3] > context.objects_after) | (first < last))
    changed, unchanged, lacking = stored.choose(concerned), [gone[:0]], len(gone)
    for one in changed.segments:
        is_gone = is_among(one.keys, gone)
        unchanged.append(one.keys[(one.keys <= context.objects_after) & ~is_gone])
        lacking -= int(is_gone.sum())
    return changed.without(np.sort(np.concatenate(unchanged))), lacking > 0


def _occupied(
    context: ReportContext, snapshot: ObjectSnapshot, asked: StandingRegions, ranges: TickRanges
) -> Intervals:
    """Return the times in reach of the ticks that may have objects; without ticks no object is counted."""
    some, none = np.flatnonzero(ranges.last >= ranges.first), np.empty(0, np.int64)
    if not len(some) or not len(snapshot.segments):
        return Intervals(none, none)
    ends = [(ticks * asked.step)[some] for ticks in ranges]
    low = max(int(snapshot.bounds[:, 0].min()), int((ends[0] - _reach(asked)[some]).min()))
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
            touched = _has_changed_words(context, objects, asked, pairs, _reach(asked)[pairs.owner])
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
    """Yield the ticks of ranges in reach of the times, so that each part reads a span of the logged reports."""
    of_each = asked.step, _reach(asked), asked.most, times
    for some in [ranges] if context.logged is None else split_by_time(ranges, *of_each):
        yield from split_pairs(some, *of_each)


def _with_logged(context: ReportContext, asked: StandingRegions, ranges: TickRanges, times: Intervals) -> Intervals:
    """Add the ticks of ranges that have a logged report, whose objects may be removed, to the times with objects."""
    some = np.flatnonzero(ranges.last >= ranges.first)
    if context.logged is None or not len(some):
        return times
    first, last = ((ticks * asked.step)[some] for ticks in ranges)
    ticks = context.logged.ticks(asked.key[some], int(first.min()), int(last.max()))
    index = np.searchsorted(times.low, ticks, "right")
    alone = ticks[ticks > np.append(names.NO_TIME, times.high)[index]]
    low, high = (np.concatenate([edges, alone]) for edges in times)
    return Intervals(np.sort(low), np.sort(high))


def _reports_before(context: ReportContext, objects: _Objects, asked: StandingRegions, pairs: Pairs) -> pa.RecordBatch:
    """Return the reports before the batch of some pairs: rows of REPORT_ROWS."""
    if context.logged is None:
        return _reports(context, objects.before, context.objects_after, asked, pairs)
    return context.logged.reports(asked.key[pairs.owner], pairs.tick * asked.step[pairs.owner])


def _reports(
    context: ReportContext, snapshot: ObjectSnapshot, up_to_key: int, asked: StandingRegions, pairs: Pairs
) -> pa.RecordBatch:
    """Return the reports of pairs about objects up to a key, empty ones among them: rows of REPORT_ROWS."""
    rows = _ask(context, snapshot, up_to_key, asked, pairs)
    owner, tick = pairs
    has_words = np.zeros(len(owner) + 1, bool)
    has_words[rows.column("pair").to_numpy()] = True
    # Whether the tick before each has words: it is the pair before, or asked for. The last place stands for none.
    follows = np.append(False, (owner[1:] == owner[:-1]) & (tick[1:] == tick[:-1] + 1))[: len(owner)]
    had_words = np.where(follows, has_words[np.arange(len(owner)) - 1], False)
    first = -(-asked.created_at[owner] // asked.step[owner])
    unknown = np.flatnonzero(~has_words[:-1] & ~follows & (tick > first))
    if len(unknown):
        earlier = Pairs(owner[unknown], tick[unknown] - 1)
        before = _ask(context, snapshot, up_to_key, asked, earlier, None, 1)
        had_words[unknown[before.column("pair").to_numpy()]] = True
    empty = np.flatnonzero(had_words & ~has_words[:-1])
    given = {"pair": empty, "rank": np.ones(len(empty), np.int64), "count": np.zeros(len(empty), np.int64)}
    columns = {"term": pa.repeat(NO_WORD, len(empty)), **given}
    empty_reports = pa.record_batch([pa.array(columns[name]) for name in REPORT_ROWS.names], schema=REPORT_ROWS)
    return pa.concat_batches([rows, empty_reports])


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
    stop_words = read_stop_words(asked.stop_words[owner])
    answered = answer_shared(
        snapshot,
        take_regions(asked.regions, owner),
        np.column_stack([after, np.full(len(owner), LAST_KEY)]),
        np.column_stack([up_to, np.full(len(owner), up_to_key)]),
        limits + (0 if stop_words is None else stop_words.sizes),
        context.conditions.asked(asked.key[owner]),
    )
    if stop_words is not None:
        answered = stop_words.drop_from(answered, limits)
    columns = {"pair": answered.question, "rank": answered.rank, **answered.columns}
    return pa.RecordBatch.from_pydict({name: columns[name] for name in REPORT_ROWS.names}, schema=REPORT_ROWS)


def _changes(
    asked: StandingRegions, pairs: Pairs, before: pa.RecordBatch | None, after: pa.RecordBatch | None
) -> pa.RecordBatch:
    """Return the rows that one side has and the other lacks: pair, term and count decide."""
    rows = pa.concat_batches([side for side in (before, after) if side is not None])
    entered = np.arange(rows.num_rows) >= (0 if before is None else before.num_rows)
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


TRANSACTIONS = "reports"
"""The application of the commits' transaction ids, which are numbers of batches."""

TASK_REGIONS = 8_192
"""Subscriptions of a task: each task counts all stored objects by time once."""


def log_reports(
    home: Home, settings: Settings, batch: Mapping[str, Any], stream_before: int, stream_time: int
) -> AnswerCounts:
    """Append the changes that a batch (a row of `batches`) makes in reports to `answer_log`, and count them.

    stream_before, stream_time: at the end of the batch before and of this one; microseconds, names.NO_TIME: no object
    """
    cache = cache_place(settings)
    log = list_regions(home, batch["requests_after"], batch["requests_to"], *cache)
    if log is None:
        return AnswerCounts()
    context = ReportContext(
        segments=list_segments(home, *cache),
        **{name: batch[name] for name in ("objects_after", "objects_to", "requests_after")},
        stream_before=stream_before,
        stream_time=stream_time,
        withdrawn_before=withdrawn_objects(home, up_to=batch["objects_after"]),
        withdrawn=withdrawn_objects(home, up_to=batch["objects_to"]),
        logged=open_logged_reports(home, batch["batch_id"]),
        conditions=list_conditions(home, *cache, batch["requests_to"]),
    )
    write = partial(_write_changes, home.table(names.ANSWER_LOG), batch["batch_id"], home.answer_buckets, context, log)
    written = list(get_engine(settings, home).run_tasks(log.divide(TASK_REGIONS), write))
    files = [file for file, _ in written if file is not None]
    commit_files(home, names.ANSWER_LOG, files, application=TRANSACTIONS, transaction=batch["batch_id"])
    return AnswerCounts(
        changes=Counter({NAME: sum(file.rows for file in files)}),
        evaluations=Counter({NAME: sum(reports for _, reports in written)}),
    )


def _write_changes(
    root: str, batch_id: int, buckets: int, context: ReportContext, log: RegionLog, shares: tuple[RegionShare, ...]
) -> tuple[DataFile | None, int]:
    """Write the changes of shares of the subscriptions as a data file; return it and the number of changed reports."""
    writer, reports = FileWriter(root, SCHEMA, {"part": CHANGE}), 0
    for rows in report_changes(context, log.read(shares)):
        key = rows.column("subscription_key").to_numpy()
        reports += pa.table(rows).group_by(["subscription_key", "ts"]).aggregate([]).num_rows
        added = {"batch_id": np.full(len(key), batch_id), "bucket": bucket_of(key, buckets)}
        writer.write(complete_rows(added | dict(zip(rows.schema.names, rows.columns)), writer.schema))
    return writer.close(), reports
