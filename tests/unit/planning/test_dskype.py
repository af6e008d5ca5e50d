"""The planners of DSkype divide as slow twins do, and every plan gives each pair of a word and a place one unit."""

import math
import random
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.planning.load_model import CostModel
from pststream.planning.papers.topk_cuts import cut_words
from pststream.planning.papers.topk_planners import make_topk_plan
from pststream.planning.papers.topk_sample import (
    SearchCosts,
    TopkSample,
    count_loads,
    find_stored,
    sum_costs,
)
from pststream.planning.planners.registry import make_plan
from pststream.plans.topk_plan import TopkPlan, find_leaves, leaf_boxes
from tests.fuzz.cases import seeds
from tests.oracles import dskype as twins
from tests.oracles.dskype import Sent, Wish, by_frequency, is_inside, loose_prefix, split_space, split_words
from tests.plans import make_sample

COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)
UNITS = (1, 2, 3, 5, 8)
every_planner = pytest.mark.parametrize("planner", names.TOPK_PLANNERS)
every_size = pytest.mark.parametrize("units", UNITS)


def world(seed: int, wishes: int = 60, messages: int = 50) -> tuple[list[Wish], list[Sent]]:
    """Draw few places and words, so that many are equal."""
    rnd = random.Random(seed)
    weights = {word: rnd.randint(1, 12) / 2 for word in range(25)}

    def words(most: int) -> list[int]:
        return sorted({int(25 * rnd.random() ** 2) for _ in range(rnd.randint(1, most))})

    def place() -> tuple[float, float]:
        return rnd.choice((-3.0, 0.0, 0.5, 7.0, rnd.uniform(-9, 9))), rnd.choice((-1.0, 2.0, rnd.uniform(-9, 9)))

    made = [
        Wish(
            *place(),
            rnd.choice((0.0, 1.0, rnd.random())),
            float(np.float32(rnd.choice((math.inf, -rnd.random(), -0.9 - rnd.random() / 20)))),
            {word: weights[word] for word in words(5)},
        )
        for _ in range(wishes)
    ]
    return made, [Sent(*place(), tuple(words(9))) for _ in range(messages)]


def stored_by(sample: TopkSample, plan: TopkPlan, unit: int) -> np.ndarray:
    subscription, unit_of = find_stored(sample, plan)
    return subscription[unit_of == unit]


def sample_of(wishes: list[Wish], sent: list[Sent]) -> TopkSample:
    def lists(parts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        return np.cumsum([0, *map(len, parts)]), np.array([word for part in parts for word in part], np.int64)

    offsets, terms = lists([list(wish.words) for wish in wishes])
    return TopkSample(
        np.arange(len(wishes)),
        *(np.array([getattr(wish, name) for wish in wishes], np.float64) for name in ("lon", "lat", "alpha")),
        np.array([wish.threshold for wish in wishes], np.float32),
        offsets,
        terms,
        np.array([weight for wish in wishes for weight in wish.words.values()], np.float32),
        *(np.array([getattr(one, name) for one in sent], np.float64) for name in ("lon", "lat")),
        *lists([list(one.words) for one in sent]),
    )


def owner(plan: TopkPlan, wish: Wish, key: int, word: int) -> int:
    """Return the one unit that finds pairs of a subscription whose rarest shared word is this one."""
    place = np.array([key]), np.array([wish.lon]), np.array([wish.lat])
    (unit,) = (u for u in range(plan.units) if plan.holds(u, *place)[0] and plan.owns(u, np.array([word]))[0])
    return unit


@every_planner
@every_size
def test_each_pair_is_found_at_one_unit_that_has_both(planner: str, units: int) -> None:
    wishes, sent = world(units)
    sample = sample_of(wishes[:30], sent[:25])  # words and places of the others are new
    plan = make_topk_plan(planner, sample, units)
    assert (plan.planner, plan.units) == (planner, units)
    message, unit = plan.route(*_words(sent))
    routed = set(zip(message.tolist(), unit.tolist(), strict=True))
    assert len(routed) == len(message)
    for key, wish in enumerate(wishes):
        for word in wish.words:
            its = owner(plan, wish, key, word)
            assert all((number, its) in routed for number, one in enumerate(sent) if word in one.words)


def _words(sent: list[Sent]) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *(len(one.words) for one in sent)]), np.array([w for one in sent for w in one.words], np.int64)


@every_size
@seeds(4)
def test_location_is_algorithm_3(units: int, seed: int) -> None:
    wishes, sent = world(seed)
    sample = sample_of(wishes, sent)
    plan = make_topk_plan("location", sample, units)
    for unit, (members, way) in enumerate(split_space(wishes, sent, units)):
        assert stored_by(sample, plan, unit).tolist() == [n for n, wish in enumerate(wishes) if id(wish) in members]
        other = np.random.default_rng(seed).uniform(-12, 12, (20, 2))
        expected = [is_inside(*point, way) for point in other.tolist()]
        assert plan.holds(unit, np.arange(20), *other.T).tolist() == expected
    loads = count_loads(sample, plan)
    assert (loads.replication, loads.copies) == (1.0, float(units))


@every_size
def test_the_boxes_of_leaves_are_where_their_points_are(units: int) -> None:
    rng = np.random.default_rng(units)
    points = rng.uniform((-180, -90), (180, 90), (300, 2))
    for cuts in (
        rng.uniform(-180, 180, units - 1),
        np.array([-20.0, 95.0, 0.0, 30.0, 30.0, -20.0, 181.0])[: units - 1],
    ):
        west, south, east, north = leaf_boxes(cuts).T
        leaves = find_leaves(cuts, *points.T)
        lon, lat = points.T
        inside = (lon > west[leaves]) & (lon <= east[leaves]) & (lat > south[leaves]) & (lat <= north[leaves])
        assert inside.all()
        assert ((east - west) * (north - south)).sum() == pytest.approx(360 * 180)


@pytest.mark.parametrize("workers", [1, 2, 5, 8])
@seeds(4)
def test_location_of_regions_is_algorithm_3_at_the_middles_of_raster_cells(workers: int, seed: int) -> None:
    wishes, sent = world(seed)
    halves = np.random.default_rng(seed).choice((0.25, 0.5, 4.0), len(wishes)).tolist()
    boxes = [(one.lon - half, one.lat - half, one.lon + half, one.lat + half) for one, half in zip(wishes, halves)]
    points, words = [(one.lon, one.lat) for one in sent], [list(one.words) for one in sent]
    sample = make_sample(points, words, boxes, [list(wish.words) for wish in wishes])
    plan = make_plan("location", sample, workers, COST, {"columns": 9, "rows": 7})
    grid, worker_of = plan.grid, plan.unit_worker[plan.leaf_unit[plan.cell_leaf]]
    width, height = (grid.east - grid.west) / 9, (grid.north - grid.south) / 7
    middles = [
        (grid.west + (column + 0.5) * width, grid.south + (row + 0.5) * height)
        for row in range(7)
        for column in range(9)
    ]
    for worker, (_, way) in enumerate(split_space(wishes, sent, workers)):
        assert (worker_of == worker).tolist() == [is_inside(*middle, way) for middle in middles]


def runs_of(plan: TopkPlan, units: Iterable[int], order: list[int]) -> list[list[int]]:
    """Return the words that units own, which are the runs of an order."""
    runs = [np.array(order)[plan.owns(unit, np.array(order))].tolist() for unit in units]
    assert [word for run in runs for word in run] == order
    return runs


@every_size
@pytest.mark.parametrize("planner", ["keyword", "prefix"])
@seeds(4)
def test_keyword_and_prefix_make_the_greatest_cost_of_a_run_least(units: int, planner: str, seed: int) -> None:
    wishes, sent = world(seed)
    sample, stored = sample_of(wishes, sent), [set(wish.words) for wish in wishes]
    if planner == "prefix":
        stored = [loose_prefix(wish) for wish in wishes]
    order, sent_words = by_frequency(wishes, sent), [set(one.words) for one in sent]
    assert sample.words.tolist() == order
    plan, shares = make_topk_plan(planner, sample, units), twins.estimate_shares(order, sent_words)
    runs, loads = runs_of(plan, range(units), order), count_loads(sample, plan)
    for unit, run in enumerate(runs):
        assert stored_by(sample, plan, unit).tolist() == [n for n, some in enumerate(stored) if some & set(run)]
    assert loads.load == pytest.approx([twins.cost_of_unit(stored, shares, set(run)) for run in runs])
    assert max(loads.load) == pytest.approx(twins.least_greatest_cost(stored, shares, order, units))
    assert loads.replication == pytest.approx(
        sum(bool(some & set(run)) for some in stored for run in runs) / len(stored)
    )
    assert loads.copies == sum(bool(set(run) & set(one.words)) for one in sent for run in runs) / len(sent)


@seeds(3)
def test_the_hybrids_divide_the_parts_of_the_first_level(seed: int) -> None:
    wishes, sent = world(seed)
    sample, prefixes = sample_of(wishes, sent), {id(wish): loose_prefix(wish) for wish in wishes}
    order, sent_words = by_frequency(wishes, sent), [set(one.words) for one in sent]
    shares = twins.estimate_shares(order, sent_words)
    space = make_topk_plan("spatial_first", sample, 6, {"first": 2})
    loads = count_loads(sample, space).load
    for leaf, (members, _) in enumerate(split_space(wishes, sent, 2)):
        inside, units = [prefixes[id(wish)] for wish in wishes if id(wish) in members], range(leaf * 3, leaf * 3 + 3)
        runs = runs_of(space, units, order)
        for unit, words in zip(units, runs, strict=True):
            expected = [n for n, w in enumerate(wishes) if id(w) in members and prefixes[id(w)] & set(words)]
            assert stored_by(sample, space, unit).tolist() == expected
        assert loads[list(units)] == pytest.approx([twins.cost_of_unit(inside, shares, set(run)) for run in runs])
        assert max(loads[list(units)]) == pytest.approx(twins.least_greatest_cost(inside, shares, order, 3))
    words_first = make_topk_plan("keyword_first", sample, 6, {"first": 3})
    runs, loads = runs_of(words_first, (0, 2, 4), order), count_loads(sample, words_first).load
    greatest = max(twins.cost_of_unit(list(prefixes.values()), shares, set(run)) for run in runs)
    assert greatest == pytest.approx(twins.least_greatest_cost(list(prefixes.values()), shares, order, 3))
    for run, words in enumerate(runs):
        inside = [wish for wish in wishes if prefixes[id(wish)] & set(words)]
        sent_there = [one for one in sent if set(one.words) & set(words)]
        for leaf, (members, _) in enumerate(split_space(inside, sent_there, 2)):
            expected = [n for n, wish in enumerate(wishes) if id(wish) in members]
            assert stored_by(sample, words_first, run * 2 + leaf).tolist() == expected
            held = [prefixes[id(wish)] for wish in wishes if id(wish) in members]
            assert loads[run * 2 + leaf] == pytest.approx(twins.cost_of_unit(held, shares, set(words)))


@every_size
@pytest.mark.parametrize("planner", ["keyword", "prefix"])
@seeds(4)
def test_by_product_keyword_and_prefix_are_algorithm_4(units: int, planner: str, seed: int) -> None:
    wishes, sent = world(seed)
    sample, stored = sample_of(wishes, sent), [set(wish.words) for wish in wishes]
    if planner == "prefix":
        stored = [loose_prefix(wish) for wish in wishes]
    order = by_frequency(wishes, sent)
    plan = make_topk_plan(planner, sample, units, {"cost": "product"})
    runs = split_words(stored, [set(one.words) for one in sent], order, units)
    for unit, run in enumerate(runs):
        assert sorted(np.array(order)[plan.owns(unit, np.array(order))].tolist()) == sorted(run)
        assert stored_by(sample, plan, unit).tolist() == [n for n, some in enumerate(stored) if some & set(run)]


@seeds(3)
def test_by_product_the_hybrids_divide_words_by_algorithm_4(seed: int) -> None:
    wishes, sent = world(seed)
    sample, prefixes = sample_of(wishes, sent), {id(wish): loose_prefix(wish) for wish in wishes}
    order, sent_words = by_frequency(wishes, sent), [set(one.words) for one in sent]
    space = make_topk_plan("spatial_first", sample, 6, {"first": 2, "cost": "product"})
    for leaf, (members, _) in enumerate(split_space(wishes, sent, 2)):
        inside = [prefixes[id(wish)] for wish in wishes if id(wish) in members]
        assert runs_of(space, range(leaf * 3, leaf * 3 + 3), order) == split_words(inside, sent_words, order, 3)
    words_first = make_topk_plan("keyword_first", sample, 6, {"first": 3, "cost": "product"})
    assert runs_of(words_first, (0, 2, 4), order) == split_words(list(prefixes.values()), sent_words, order, 3)


def test_hash_and_location_search_all_words_at_each_unit() -> None:
    wishes, sent = world(3)
    sample, order = sample_of(wishes, sent), by_frequency(wishes, sent)
    shares = twins.estimate_shares(order, [set(one.words) for one in sent])
    for planner in ("hash", "location"):
        plan = make_topk_plan(planner, sample, 5)
        held = [[set(wishes[n].words) for n in stored_by(sample, plan, unit)] for unit in range(5)]
        expected = [twins.cost_of_unit(some, shares, set(order)) for some in held]
        assert count_loads(sample, plan).load == pytest.approx(expected)
        tenfold = count_loads(replace(sample, subscription_scale=10.0), plan).load
        assert tenfold == pytest.approx([twins.cost_of_unit(some * 10, shares, set(order)) for some in held])


def test_runs_divide_by_what_the_sampled_subscriptions_stand_for() -> None:
    wishes, sent = world(4)
    sample = sample_of(wishes, sent)
    many = make_topk_plan("keyword", sample_of(wishes * 500, sent), 4)
    scaled = make_topk_plan("keyword", replace(sample, subscription_scale=500.0), 4)
    assert (
        scaled.word_cuts.tolist() == many.word_cuts.tolist() != make_topk_plan("keyword", sample, 4).word_cuts.tolist()
    )


def test_no_run_is_empty_while_there_are_words() -> None:
    costs = sum_costs(np.array([0.001, 0.001, 0.001, 0.9]), np.array([1.0, 1.0, 1.0, 1000.0]))
    assert cut_words(costs, 3).tolist() == [2, 3]
    assert cut_words(costs, 4).tolist() == [1, 2, 3]
    assert cut_words(costs, 6).tolist() == [0, 0, 1, 2, 3]
    nothing = SearchCosts(np.zeros(6), np.zeros(6))
    assert cut_words(nothing, 3).tolist() == [3, 4]
    assert cut_words(sum_costs(np.empty(0), np.empty(0)), 3).tolist() == [0, 0]


@every_planner
def test_samples_without_subscriptions_or_messages(planner: str) -> None:
    wishes, sent = world(1)
    for some in (([], []), (wishes, []), ([], sent)):
        sample = sample_of(*some)
        plan = make_topk_plan(planner, sample, 4)
        loads = count_loads(sample, plan)
        assert loads.load.shape == (4,)
        keys = np.arange(len(wishes))
        owners = [owner(plan, wish, key, word) for key, wish in enumerate(wishes) for word in wish.words]
        assert len(owners) >= len(keys)


def test_prefixes_are_those_of_the_twin() -> None:
    wishes, sent = world(6, wishes=300)
    sample = sample_of(wishes, sent)
    for number, wish in enumerate(wishes):
        own = slice(sample.offsets[number], sample.offsets[number + 1])
        assert set(sample.terms[own][sample.in_prefix[own]].tolist()) == loose_prefix(wish)


def test_the_levels_of_a_hybrid() -> None:
    sample = sample_of(*world(2))
    first = {units: make_topk_plan("keyword_first", sample, units).first for units in (1, 2, 4, 5, 12, 32)}
    assert first == {1: 1, 2: 1, 4: 2, 5: 1, 12: 3, 32: 4}
    with pytest.raises(UsageError, match="does not divide"):
        make_topk_plan("spatial_first", sample, 4, {"first": 3})
    with pytest.raises(UsageError, match="no option 'first'\\n  its options: cost"):
        make_topk_plan("prefix", sample, 4, {"first": 2})
    with pytest.raises(UsageError, match="no option 'cost'\\n  its options: none"):
        make_topk_plan("location", sample, 4, {"cost": "product"})
    with pytest.raises(UsageError, match="'sum' is unknown\\n  one of: search, product"):
        make_topk_plan("prefix", sample, 4, {"cost": "sum"})
    with pytest.raises(UsageError, match="unknown"):
        make_topk_plan("kd_tree", sample, 4)
    with pytest.raises(UsageError, match="at least 1"):
        make_topk_plan("hash", sample, 0)
