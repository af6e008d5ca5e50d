"""Parts of the ticks of many subscriptions, and shares of their regions: all once, in order, few enough each."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from benchmarks.support.answers.standing_regions import add_regions
from pststream.pipeline.answers import log_reports
from pststream.pipeline.answers.log_reports import Intervals, TickRanges, split_by_time, split_pairs
from pststream.pipeline.answers.standing_regions import list_regions
from pststream.search.question_batch import take_regions
from pststream.state.home import Home as State
from tests.commands import new_home
from tests.fuzz.cases import seeds


def some_ranges(random: np.random.Generator, count: int) -> tuple[TickRanges, np.ndarray, np.ndarray, np.ndarray]:
    first = random.integers(-50, 50, count)
    ranges = TickRanges(first, first + random.integers(-1, 60, count))
    return ranges, random.choice([2, 5], count), random.choice([1, 7, 40], count), random.choice([1, 3, 90], count)


@seeds(4)
def test_each_pair_is_in_one_part_of_bounded_size(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    ranges, step, window, rows = some_ranges(random, 30)
    edges = np.sort(random.choice(np.arange(-150, 300), 12, replace=False)).reshape(6, 2)
    times = Intervals(*edges.T)
    monkeypatch.setattr(log_reports, "PAIRS", 16)
    monkeypatch.setattr(log_reports, "ROWS", 100)
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


ALWAYS = Intervals(np.array([-(10**6)]), np.array([10**6]))


def pairs_of(span: TickRanges) -> list[tuple[int, int]]:
    """The pairs of a subscription and a tick."""
    ranges = enumerate(zip(span.first.tolist(), span.last.tolist(), strict=True))
    return [(owner, tick) for owner, (first, last) in ranges for tick in range(first, last + 1)]


@seeds(4)
def test_spans_of_time_have_each_tick_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reports, "PAIRS", 40)
    monkeypatch.setattr(log_reports, "ROWS", 900)
    random = np.random.default_rng(seed)
    ranges, step, window, rows = some_ranges(random, 30)
    # A few have many old ticks: most ticks lie in a small part of the time.
    ranges.first[:3] -= 400
    found, latest = list[tuple[int, int]](), -(10**9)
    for span in split_by_time(ranges, step, window, rows, ALWAYS):
        pairs = pairs_of(span)
        times = {tick * int(step[owner]) for owner, tick in pairs}
        is_small = len(pairs) <= 40 and sum(rows[owner] for owner, _ in pairs) <= 900
        assert (is_small or len(times) == 1) and min(times) > latest
        found, latest = found + pairs, max(times)
    assert sorted(found) == pairs_of(ranges) and len(found) > 400
    assert not list(split_by_time(TickRanges(ranges.first, ranges.first - 1), step, window, rows, ALWAYS))


def test_spans_leave_out_years_without_objects() -> None:
    minutes = 30 * 365 * 1440
    ranges = TickRanges(np.zeros(500, np.int64), np.full(500, minutes))
    each = np.ones(500, np.int64)
    edges = np.array([10, minutes - 20])
    spans = list(split_by_time(ranges, each, 60 * each, 10 * each, Intervals(edges, edges + 5)))
    assert sum(int((span.last - span.first + 1).sum()) for span in spans) == 500 * (65 + 21)
    assert len(spans) == 3


def test_tasks_read_the_regions_and_do_not_grow_with_them(tmp_path: Path) -> None:
    sizes = []
    for count in (50, 5_000):
        home = State(new_home(tmp_path / str(count)).path)
        assert list_regions(home, 0, 2**62, "", 0) is None
        added = add_regions(home, count, 72, 1)
        log = list_regions(home, 0, added.last_key - 7, str(tmp_path / "cache"), 10**9)
        assert log is not None
        divided = log.divide(400)
        sizes += [len(pickle.dumps((log, shares))) for shares in divided]
        read = [log.read(shares) for shares in divided]
        keys = np.concatenate([one.key for one in read])
        boxes = np.concatenate([one.regions.boxes for one in read])
        order = np.argsort(keys)
        assert keys[order].tolist() == list(range(added.last_key - count + 1, added.last_key - 6))
        assert (boxes[order] == added.boxes[:-7]).all()
        assert all(len(one.key) <= 400 and (one.step == 3_600_000_000).all() for one in read)
    assert len(sizes) == 14 and max(sizes) < min(sizes) + 50


def test_a_share_has_neighbours(tmp_path: Path) -> None:
    home = State(new_home(tmp_path / "home").path)
    added = add_regions(home, 2_000, 72, 1)
    log = list_regions(home, 0, added.last_key, str(tmp_path / "cache"), 10**9)
    assert log is not None
    areas = [np.ptp(log.read(shares).regions.boxes[:, :2], axis=0).prod() for shares in log.divide(20)]
    assert np.median(areas) < np.ptp(added.boxes[:, :2], axis=0).prod() / 20


def test_a_task_has_regions_of_several_groups_of_files(tmp_path: Path) -> None:
    home = State(new_home(tmp_path / "home").path)
    added = add_regions(home, 1_000, 72, 1, cuts=(900, 970))
    log = list_regions(home, 0, added.last_key, str(tmp_path / "cache"), 10**9)
    assert log is not None and log.counts == (900, 70, 30)
    read = [log.read(shares) for shares in log.divide(600)]
    assert [len(one.key) for one in read] == [600, 400]
    order = np.argsort(np.concatenate([one.key for one in read]))
    assert (np.concatenate([one.regions.boxes for one in read])[order] == added.boxes).all()
    assert all((take_regions(one.regions, np.arange(7)).boxes == one.regions.boxes[:7]).all() for one in read)
