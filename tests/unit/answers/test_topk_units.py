"""The units of a plan find together each pair that one index finds; the fastest of several searches counts."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from pststream.answers.scored_index import Messages, ScoredIndex, ScoredSubscriptions
from pststream.answers.topk_units import SEARCHES, UnitShare, time_fastest
from pststream.base import names
from pststream.planning.papers.topk_planners import make_topk_plan
from pststream.planning.papers.topk_sample import TopkSample, find_stored
from pststream.plans.topk_plan import TopkPlan
from tests.unit.answers.scored_index_worlds import as_messages, as_subscriptions, by_pair, random_world, with_thresholds


def sample_of(some: ScoredSubscriptions, messages: Messages) -> TopkSample:
    columns = (some.key, some.lon, some.lat, some.alpha, some.threshold, some.offsets, some.terms, some.weights)
    return TopkSample(*columns, messages.lon, messages.lat, messages.offsets, messages.terms)


def take(messages: Messages, rows: np.ndarray) -> Messages:
    lists = [slice(messages.offsets[row], messages.offsets[row + 1]) for row in rows]
    offsets = np.cumsum([0, *(part.stop - part.start for part in lists)])
    terms, weights = (np.concatenate([column[:0], *(column[p] for p in lists)]) for column in messages[5:])
    return Messages(*(column[rows] for column in messages[:4]), offsets, terms, weights)


def found_by_units(plan: TopkPlan, indexes: list[ScoredIndex], messages: Messages) -> dict:
    message, unit = plan.route(messages.offsets, messages.terms)
    parts = [index.find_candidates(take(messages, message[unit == number])) for number, index in enumerate(indexes)]
    pairs = [by_pair(part) for part in parts]
    assert sum(map(len, pairs)) == len({pair for part in pairs for pair in part})
    return {pair: value for part in pairs for pair, value in part.items()}


@pytest.mark.parametrize("units", [1, 6])
@pytest.mark.parametrize("planner", names.TOPK_PLANNERS)
def test_units_find_what_one_index_finds(planner: str, units: int) -> None:
    rnd = random.Random(units)
    made, sent, weights = random_world(rnd, 400, 40)
    made = with_thresholds(rnd, made, sent, weights)
    messages, some = as_messages(sent, weights), as_subscriptions(made, weights)
    plan = make_topk_plan(planner, sample_of(as_subscriptions(made[:250], weights), messages), units)
    shares = [UnitShare(plan, unit) for unit in range(units)]
    indexes = [ScoredIndex(marks=share.mark) for share in shares]
    one = ScoredIndex()
    for batch in (made[:300], made[300:]):
        arrays = as_subscriptions(batch, weights)
        one.insert(arrays)
        for share, index in zip(shares, indexes):
            index.insert(share.select(arrays))
    expected = by_pair(one.find_candidates(messages))
    assert expected
    assert found_by_units(plan, indexes, messages) == expected
    stored = [np.concatenate([segment.keys for segment in index.segments]) for index in indexes if index.segments]
    rows, _ = find_stored(sample_of(some, messages), plan)
    assert sorted(np.concatenate(stored).tolist()) == sorted(some.key[rows].tolist())


@pytest.mark.parametrize("planner", ["keyword", "prefix", "keyword_first"])
def test_thresholds_that_loosen_add_postings_and_units(planner: str) -> None:
    rnd = random.Random(7)
    made, sent, weights = random_world(rnd, 500, 40)
    messages = as_messages(sent, weights)
    before = [replace(one, threshold=-0.97) for one in made]
    plan = make_topk_plan(planner, sample_of(as_subscriptions(before, weights), messages), 6)
    shares = [UnitShare(plan, unit) for unit in range(6)]
    indexes = [ScoredIndex(marks=share.mark) for share in shares]
    one = ScoredIndex()
    one.insert(as_subscriptions(before, weights))
    for share, index in zip(shares, indexes):
        index.insert(share.select(as_subscriptions(before, weights)))
    postings = sum(len(segment.subscriptions) for index in indexes for segment in index.segments)
    for _ in range(3):
        after = with_thresholds(rnd, made, sent, weights)
        arrays = as_subscriptions(after, weights)
        one.change_thresholds(arrays.key, arrays.threshold)
        for share, index in zip(shares, indexes):
            index.change_thresholds(arrays.key, arrays.threshold)
            indexed = np.concatenate([s.keys[s.thresholds > -np.inf] for s in index.segments] or [arrays.key[:0]])
            assert len(set(indexed.tolist())) == len(indexed)
            assert index.holds(arrays.key).tolist() == np.isin(arrays.key, indexed).tolist()
            rows = np.flatnonzero(~index.holds(arrays.key))
            index.insert(share.select(as_subscriptions([after[row] for row in rows], weights)))
        assert found_by_units(plan, indexes, messages) == by_pair(one.find_candidates(messages))
    grown = sum(len(segment.subscriptions) for index in indexes for segment in index.segments)
    assert (grown > postings) == plan.is_prefix


@pytest.mark.parametrize("planner", ["prefix", "spatial_first", "keyword_first"])
def test_a_subscription_is_at_each_unit_of_the_prefixes_that_it_has_had(planner: str) -> None:
    """Lazy reallocation: a longer prefix adds units, and a shorter one removes none."""
    rnd = random.Random(8)
    made, sent, weights = random_world(rnd, 300, 40)
    messages, bounds = as_messages(sent, weights), (-0.97, -0.9, -0.98, -0.94, -0.5)
    tight = as_subscriptions([replace(one, threshold=bounds[0]) for one in made], weights)
    plan = make_topk_plan(planner, sample_of(tight, messages), 6)
    shares = [UnitShare(plan, unit) for unit in range(6)]
    indexes, expected, sizes = [ScoredIndex(marks=share.mark) for share in shares], [set[int]() for _ in shares], []
    for bound in bounds:
        arrays = as_subscriptions([replace(one, threshold=bound) for one in made], weights)
        rows_of, unit_of = find_stored(sample_of(arrays, messages), plan)
        for unit, (share, index) in enumerate(zip(shares, indexes)):
            index.change_thresholds(arrays.key, arrays.threshold)
            held = {key for s in index.segments for key in s.keys[s.thresholds > -np.inf].tolist()}
            rows = [row for row, key in enumerate(arrays.key.tolist()) if key not in held]
            index.insert(share.select(as_subscriptions([replace(made[row], threshold=bound) for row in rows], weights)))
            expected[unit] |= set(arrays.key[rows_of[unit_of == unit]].tolist())
            held = [key for s in index.segments for key in s.keys[s.thresholds > -np.inf].tolist()]
            assert sorted(held) == sorted(expected[unit])
        sizes.append(sum(map(len, expected)))
    assert sizes[0] < sizes[1] == sizes[2] == sizes[3] < sizes[4]


@pytest.mark.parametrize("seconds", itertools.permutations((0.5, 2.0, 3.0)))
def test_the_fastest_of_the_searches_counts(seconds: tuple[float, ...]) -> None:
    now, done = [100.0], []

    def search() -> int:
        now[0] += seconds[len(done)]
        done.append(7)
        return len(done)

    assert time_fastest(search, lambda: now[0]) == (0.5, SEARCHES) and len(done) == SEARCHES == len(seconds)


def test_a_search_that_the_clock_does_not_see_takes_a_nanosecond() -> None:
    assert time_fastest(lambda: 3, lambda: 1.0) == (1e-9, 3)
