"""Parts of the ticks of many subscriptions: all pairs once, in order, with few enough pairs and rows each."""

import numpy as np
import pytest

from pststream.pipeline.term_reports import report_ticks
from pststream.pipeline.term_reports.report_ticks import Intervals, TickRanges, split_by_time, split_pairs


def some_ranges(random: np.random.Generator, count: int) -> tuple[TickRanges, np.ndarray, np.ndarray, np.ndarray]:
    first = random.integers(-50, 50, count)
    ranges = TickRanges(first, first + random.integers(-1, 60, count))
    return ranges, random.choice([2, 5], count), random.choice([1, 7, 40], count), random.choice([1, 3, 90], count)


@pytest.mark.parametrize("seed", range(4))
def test_each_pair_is_in_one_part_of_bounded_size(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    ranges, step, window, rows = some_ranges(random, 30)
    edges = np.sort(random.choice(np.arange(-150, 300), 12, replace=False)).reshape(6, 2)
    times = Intervals(*edges.T)
    monkeypatch.setattr(report_ticks, "PAIRS", 16)
    monkeypatch.setattr(report_ticks, "ROWS", 100)
    parts = list(split_pairs(ranges, step, window, rows, times))
    found = [pair for part in parts for pair in zip(part.owner.tolist(), part.tick.tolist())]
    occupied = np.concatenate([np.arange(low, high + 1) for low, high in edges])
    expected = [
        (owner, tick)
        for owner in range(30)
        for tick in range(int(ranges.first[owner]), int(ranges.last[owner]) + 1)
        if np.any((occupied > tick * step[owner] - window[owner]) & (occupied <= tick * step[owner]))
    ]
    assert sorted(found) == sorted(expected) and len(found) > 100
    assert all(len(part.owner) <= 16 for part in parts)
    assert all(rows[part.owner].sum() <= 100 or len(part.owner) == 1 for part in parts)
    assert len(parts) < len(found) / 2


def test_subscriptions_of_many_steps_are_in_one_part() -> None:
    count = 200
    first, step = np.ones(count, np.int64), np.arange(1, count + 1)
    parts = list(
        split_pairs(TickRanges(first, first), step, step, np.full(count, 10), Intervals(first[:1], first[:1] * count))
    )
    assert [part.owner.tolist() for part in parts] == [list(range(count))]


@pytest.mark.parametrize("seed", range(4))
def test_spans_of_time_have_each_tick_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_ticks, "PAIRS", 40)
    ranges, step, _, _ = some_ranges(np.random.default_rng(seed), 30)
    ticks = np.concatenate([np.arange(first, last + 1) for first, last in zip(*ranges)])
    owners = np.repeat(np.arange(30), np.maximum(ranges.last - ranges.first + 1, 0))
    spans = list(split_by_time(ranges, step))
    assert len(spans) == -(-len(ticks) // 40) > 10
    found = list[tuple[int, int]]()
    latest = -(10**9)
    for span in spans:
        pairs = [(n, tick) for n in range(30) for tick in range(int(span.first[n]), int(span.last[n]) + 1)]
        times = [tick * int(step[n]) for n, tick in pairs]
        assert len(pairs) < 160 and min(times, default=latest + 1) > latest
        latest = max(times, default=latest)
        found += pairs
    assert sorted(found) == list(zip(owners.tolist(), ticks.tolist()))
    assert not list(split_by_time(TickRanges(ranges.first, ranges.first - 1), step))
