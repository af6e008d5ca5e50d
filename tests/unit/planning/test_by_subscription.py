"""The planners of DkM-SKS, and `hash`, place as slow twins do, present subscriptions and new ones."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base import names
from pststream.kernels.planning.split_subscriptions import find_nearest_areas
from pststream.planning.live_terms import keep_pieces
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.by_subscription import (
    build_area_index,
    describe_sample,
    estimate_ranges,
    nearest_areas,
    place,
)
from pststream.planning.planners.registry import load_placement, make_plan, place_sample
from pststream.plans.pieces import NO_UNIT
from pststream.plans.plan import subscription_plan
from pststream.plans.planner_sample import WorkloadSample, count_sample
from tests.fuzz.cases import examples, seeds
from tests.oracles.placement import SlowPlanner, Thing, Wish, closeness, objects_with
from tests.oracles.posting_reads import holds_cell_of
from tests.plans import make_sample, pack, samples, unpack


def make_ranges(rng: np.random.Generator, count: int, side: int, greatest: int) -> np.ndarray:
    low = rng.integers(0, side, (count, 2))
    return np.hstack([low, np.minimum(low + rng.integers(0, greatest, (count, 2)), side - 1)]).astype(np.int32)


@pytest.mark.parametrize(
    ("count", "side", "greatest"), [(1, 5, 3), (16, 9, 4), (17, 40, 2), (300, 30, 30), (300, 500, 9), (300, 4, 2)]
)
def test_finds_what_a_look_at_each_area_finds(count: int, side: int, greatest: int) -> None:
    rng = np.random.default_rng(count + side)
    areas, ranges = make_ranges(rng, count, side, greatest), make_ranges(rng, 200, side, side)
    index = build_area_index(areas)
    _, entries = find_nearest_areas(ranges, index)
    expected = [
        max(range(count), key=lambda k: (closeness(tuple(areas[k].tolist()), tuple(own)), -k))
        for own in ranges.tolist()
    ]
    assert index.first[entries].tolist() == expected
    assert index.boxes[entries].tolist() == areas[expected].tolist()


def test_of_several_indexes_the_first_of_the_nearest_counts() -> None:
    rng = np.random.default_rng(4)
    areas, ranges = make_ranges(rng, 90, 30, 6), make_ranges(rng, 200, 30, 9)
    parts = [build_area_index(part) for part in (areas[:0], areas[:40], areas[40:])]
    assert nearest_areas(ranges, parts).tolist() == nearest_areas(ranges, [build_area_index(areas)]).tolist()
    assert nearest_areas(ranges, [parts[0]]).tolist() == ranges.tolist()


COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)
SMALL = {"columns": 9, "rows": 7}
FEW = {"hash": {}, "keyword_oriented": {}, "space_oriented": {"subspaces": 3}, "dkm_sks": {"subset": 3, "tested": 6}}
"""Options by which small worlds are split."""

every_planner = pytest.mark.parametrize("name", FEW)


def crowded(seed: int, pieces: int) -> WorkloadSample:
    """Objects and regions in some places with some words, and many of each at one place."""
    rng = np.random.default_rng(seed)
    things = rng.normal(0, 2, (60, 2)).round(1)
    middles = np.where(rng.random((pieces, 1)) < 0.3, (1.0, 1.0), rng.normal(0, 2, (pieces, 2)))
    half = rng.choice((0.01, 0.5, 3.0), (pieces, 1))
    words = [rng.integers(0, 9, 3).tolist() for _ in range(60)]
    asked = [rng.integers(0, 12, rng.integers(1, 4)).tolist() for _ in range(pieces)]
    boxes = np.hstack([middles - half, middles + half]).tolist()
    return make_sample([tuple(p) for p in things.tolist()], words, [tuple(b) for b in boxes], asked)


def as_lists(sample: WorkloadSample, plan) -> tuple[list[Thing], list[Wish]]:
    """The objects and the subscriptions of a sample for the twin."""
    x, y = plan.grid.cell_x(sample.lon).tolist(), plan.grid.cell_y(sample.lat).tolist()
    words = unpack(sample.term_offsets, sample.terms)
    things = [(a, b, frozenset([*own, names.EVERY_OBJECT])) for a, b, own in zip(x, y, words)]
    wishes: dict[int, Wish] = {}
    sides = zip(sample.piece_key.tolist(), sample.boxes, unpack(sample.post_offsets, sample.post_terms))
    for key, (west, south, east, north), terms in sides:
        low = int(plan.grid.cell_x(np.array(west))), int(plan.grid.cell_y(np.array(south)))
        high = int(plan.grid.cell_x(np.array(east))), int(plan.grid.cell_y(np.array(north)))
        first = wishes.setdefault(key, Wish(key, (*low, *high), tuple(terms)))
        joined = [pick(a, b) for pick, a, b in zip((min, min, max, max), first.area, (*low, *high))]
        wishes[key] = Wish(key, tuple(joined), first.terms)
    return things, list(wishes.values())


def assert_as_the_twin(name: str, sample: WorkloadSample, workers: int, present_to: int) -> None:
    plan = make_plan(name, sample, workers, COST, {**SMALL, **FEW[name]})
    things, wishes = as_lists(sample, plan)
    present = sum(wish.key <= present_to for wish in wishes)
    wanted = {"space_oriented": 3 * workers, "dkm_sks": -(-present // 3)}.get(name, 0)
    expected = SlowPlanner(name, things, 9, 7, wanted, 6).place(wishes, present_to, workers)
    described, _ = describe_sample(sample, plan)
    counts = count_sample(sample, plan.grid)
    placed = place(load_placement(plan), plan, counts, described, present_to, np.zeros(workers))
    assert dict(zip(described.keys.tolist(), placed.units.tolist())) == expected


@every_planner
@examples(40)
@given(sample=samples(), workers=st.sampled_from((1, 2, 5)), present_to=st.sampled_from((-1, 5, 100)))
def test_places_as_the_twin(name: str, sample: WorkloadSample, workers: int, present_to: int) -> None:
    assert_as_the_twin(name, sample, workers, present_to)


@every_planner
@seeds(6)
@pytest.mark.parametrize("present_to", [40, 200])
def test_places_many_as_the_twin(name: str, seed: int, present_to: int) -> None:
    assert_as_the_twin(name, crowded(seed, 80), 3, present_to)


@every_planner
def test_the_order_of_pieces_is_irrelevant_and_places_go_on_from_the_loads(name: str) -> None:
    sample = crowded(3, 60)
    plan = make_plan(name, sample, 4, COST, {**SMALL, **FEW[name]})
    counts = count_sample(sample, plan.grid)
    described, _ = describe_sample(sample, plan)
    whole = place(load_placement(plan), plan, counts, described, 30, np.zeros(4))
    first, then = (described.select(chosen) for chosen in (described.keys <= 45, described.keys > 45))
    begun = place(load_placement(plan), plan, counts, first, 30, np.zeros(4))
    ended = place(load_placement(plan), plan, counts, then, 30, begun.loads, [build_area_index(begun.areas)])
    assert np.concatenate([begun.units, ended.units]).tolist() == whole.units.tolist()
    assert ended.loads.tolist() == whole.loads.tolist()


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_likely_circles_are_the_least_squares_with_enough_objects(scale: float) -> None:
    sample = replace(crowded(7, 60), object_scale=scale)
    plan = make_plan("dkm_sks", sample, 4, COST, {**SMALL, **FEW["dkm_sks"]})
    things, _ = as_lists(sample, plan)
    rng = np.random.default_rng(1)
    points, k = rng.normal(0, 3, (50, 2)), rng.integers(1, 60, 50)
    words = [rng.integers(0, 12, rng.integers(1, 4)).tolist() for _ in range(50)]
    found = estimate_ranges(plan.grid, count_sample(sample, plan.grid), points, k, *pack(words))
    columns, rows = plan.grid.cell_x(points[:, 0]).tolist(), plan.grid.cell_y(points[:, 1]).tolist()
    reaches = set[int]()
    for x, y, enough, own, area in zip(columns, rows, k.tolist(), words, found.tolist()):
        squares = [(max(x - r, 0), max(y - r, 0), min(x + r, 8), min(y + r, 6)) for r in range(10)]
        full = [r for r in range(10) if scale * sum(objects_with(things, squares[r], w) for w in own) >= enough]
        reaches.add(full[0] if full else 9)
        assert tuple(area) == squares[full[0] if full else 9]
    assert len(reaches) > 3


def near_objects(sample: WorkloadSample, pieces: np.ndarray) -> int:
    """The objects with a term of one of the pieces in an index cell of its box."""
    words, posts = unpack(sample.term_offsets, sample.terms), unpack(sample.post_offsets, sample.post_terms)
    boxes = sample.boxes.tolist()
    return sum(
        any(set(own) & set(posts[piece]) and holds_cell_of(tuple(boxes[piece]), x, y) for piece in pieces.tolist())
        for x, y, own in zip(sample.lon, sample.lat, words)
    )


def test_loads_are_those_of_workers_with_their_own_subscriptions() -> None:
    sample = crowded(5, 60)
    plan = replace(make_plan("keyword_oriented", sample, 3, COST, SMALL), unit_worker=np.array([2, 0, 1], np.int32))
    placed = place_sample(sample, plan, count_sample(sample, plan.grid))
    loads = compute_worker_loads(placed, plan, COST)
    for unit, worker in enumerate(plan.unit_worker):
        own = keep_pieces(sample, placed.piece_unit == unit)
        objects = near_objects(sample, np.flatnonzero(placed.piece_unit == unit))
        assert loads.objects[worker] == objects > 0
        assert loads.unit_subscriptions[unit] == loads.subscriptions[worker] == own.subscriptions
        expected = COST.rates(sample).load(*np.array([objects, own.subscriptions, own.reads.sum()]))
        assert loads.load[worker] == loads.unit_load[unit] == pytest.approx(expected)


def test_subscriptions_that_the_sample_lacks_are_near_the_sampled_ones() -> None:
    sample = crowded(5, 60)
    plan = make_plan("keyword_oriented", sample, 3, COST, SMALL)
    placed = place_sample(sample, plan, count_sample(sample, plan.grid))
    objects = [
        compute_worker_loads(replace(placed, subscription_scale=scale), plan, COST).objects
        for scale in (1.0, 1.5, 4.0, 1e9)
    ]
    assert all(before.sum() < after.sum() for before, after in pairwise(objects))
    assert objects[-1].tolist() == [near_objects(sample, np.arange(sample.pieces))] * 3


def test_a_unit_is_recorded_or_follows_from_the_key() -> None:
    plan = subscription_plan("keyword_oriented", make_plan("grid", crowded(1, 5), 1, COST, SMALL).grid, 4)
    keys, units = np.arange(100), np.full(100, NO_UNIT, np.int32)
    by_key = plan.owner_units(keys, units)
    assert set(by_key.tolist()) == {0, 1, 2, 3}
    assert plan.owner_units(~keys, units).tolist() == by_key.tolist()
    units[:8] = np.arange(8)
    assert plan.owner_units(keys, units)[:8].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
