"""Compute which ticks of subscriptions have a report before and after a micro-batch.

Ticks are the multiples of the step since 1970, numbered by their quotient. A subscription has a report at each tick m
with `created_at` <= m < its end and m <= stream time, whose window (m - window, m] has an object. All times are
microseconds.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

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
    """Pairs of a subscription (place) and a tick: int64[n] each."""

    owner: np.ndarray
    tick: np.ndarray


def ticks_until(created_at: np.ndarray, end_at: np.ndarray, step: np.ndarray, stream_time: int) -> TickRanges:
    """Return the ticks at which subscriptions live and that stream time has reached."""
    first = -(-created_at // step)
    last = np.minimum(stream_time // step, -(-end_at // step) - 1)
    return TickRanges(first, np.maximum(last, first - 1))


def occupied_intervals(counts: np.ndarray, low: int, width: int) -> Intervals:
    """Return the times that may have objects, of counts (int64[n]) of objects by (ts - low) // width."""
    places = np.flatnonzero(counts)
    begins = np.flatnonzero(np.append(True, np.diff(places) > 1)[: len(places)])
    ends = np.append(begins[1:], len(places))[: len(begins)] - 1
    return Intervals(low + places[begins] * width, low + (places[ends] + 1) * width - 1)


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
            yield _join(waiting)
            waiting, waiting_pairs, waiting_rows = [], 0, 0
        waiting.append(pairs)
        waiting_pairs, waiting_rows = waiting_pairs + len(pairs.owner), waiting_rows + most
    if waiting:
        yield _join(waiting)


def _join(parts: list[Pairs]) -> Pairs:
    return Pairs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


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
        begin, stop = (_place(ticks, starts, edge) for edge in (ranges.first[owners], ranges.last[owners] + 1))
        totals = np.append(0, np.cumsum(stop - begin))
        edge = 0
        while edge < totals[-1]:
            after = _end_of_part(edge, totals, rows[owners])
            pair = np.arange(edge, after)
            owner = np.searchsorted(totals, pair, "right") - 1
            number = begin[owner] + pair - totals[owner]
            place = np.searchsorted(starts, number, "right") - 1
            yield Pairs(owners[owner], ticks.low[place] + number - starts[place])
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


def _place(ticks: Intervals, starts: np.ndarray, tick: np.ndarray) -> np.ndarray:
    """Return how many ticks of the intervals come before each tick: int64[n]."""
    place = np.searchsorted(ticks.low, tick, "right") - 1
    inside = np.minimum(tick - ticks.low[place], ticks.high[place] - ticks.low[place] + 1)
    return np.where(place < 0, 0, starts[place] + inside)
