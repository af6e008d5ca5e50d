"""The battery that every planner passes: complete, deterministic, pure plans, under which each pair meets once."""

import pickle
from dataclasses import fields, replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.names import PLANNERS
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners import grow_tree, hybrid
from pststream.planning.planners.registry import make_plan
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_rows import node_rows, nodes_from_rows, plan_from_rows, plan_row, unit_rows, validate
from pststream.plans.planner_sample import WorkloadSample
from pststream.workloads.random_texts import PowerLaw
from tests.fuzz.cases import examples
from tests.plans import TERMS, identical_plans, make_sample, pack, samples, unpack
from tests.routes import check_meetings

COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)
SMALL: dict[str, object] = {"columns": 9, "rows": 7}

TEXT = ("frequency", "hypergraph", "metric")
SPACE_BY_LOAD = ("grid", "kd_tree", "plain_kd_tree", "r_tree")
"""They share any load evenly; `a_grid` does for powers of two, `quadtree` in its own measure of load."""
SPACE = (*SPACE_BY_LOAD, "a_grid", "uniform", "quadtree")

every_planner = pytest.mark.parametrize("name", PLANNERS)
space_planners = pytest.mark.parametrize("name", SPACE)
even_planners = pytest.mark.parametrize("name", SPACE_BY_LOAD)
text_planners = pytest.mark.parametrize("name", TEXT)
some_workers = st.sampled_from((1, 2, 3, 8, 70))


def small_plan(name: str, sample: WorkloadSample, workers: int) -> PartitionPlan:
    return make_plan(name, sample, workers, COST, SMALL)


def shuffled(sample: WorkloadSample, seed: int) -> WorkloadSample:
    """The same objects and pieces in another order."""
    rng = np.random.default_rng(seed)
    objects, pieces = rng.permutation(sample.objects), rng.permutation(sample.pieces)
    terms, posts = unpack(sample.term_offsets, sample.terms), unpack(sample.post_offsets, sample.post_terms)
    term_offsets, term_ids = pack([terms[i] for i in objects])
    post_offsets, post_terms = pack([posts[i] for i in pieces])
    postings, reads = (
        np.concatenate([values[:0], *(unpack(sample.term_offsets, values)[i] for i in objects)]).astype(values.dtype)
        for values in (sample.postings, sample.reads)
    )
    return replace(
        sample, lon=sample.lon[objects], lat=sample.lat[objects], term_offsets=term_offsets, terms=term_ids,
        boxes=sample.boxes[pieces], piece_key=sample.piece_key[pieces], post_offsets=post_offsets,
        post_terms=post_terms, postings=postings, reads=reads,
    )  # fmt: skip


@pytest.mark.parametrize("name", [name for name in PLANNERS if name != "auto"])
@examples(50)
@given(sample=samples(), later=samples(), workers=some_workers, seed=st.integers(0, 2**32 - 1))
def test_plans_are_complete_and_pure(
    name: str, sample: WorkloadSample, later: WorkloadSample, workers: int, seed: int
) -> None:
    check_plans(name, sample, later, workers, seed)


@examples(10)
@given(sample=samples(), later=samples(), workers=some_workers, seed=st.integers(0, 2**32 - 1))
def test_plans_of_auto_are_complete_and_pure(
    sample: WorkloadSample, later: WorkloadSample, workers: int, seed: int
) -> None:
    """Each is a plan of another planner; to choose it takes as long as two plans of every other planner."""
    check_plans("auto", sample, later, workers, seed)


def check_plans(name: str, sample: WorkloadSample, later: WorkloadSample, workers: int, seed: int) -> None:
    """A plan comes back from its rows; the same sample in any order gives the same plan, and is left alone; each pair
    meets once, also one that the planner has not seen.

    The second plan is of the shuffled sample only: what a planner keeps from one call to the next would change it too.
    """
    before, options = pickle.loads(pickle.dumps(sample)), dict(SMALL)
    plan = make_plan(name, sample, workers, COST, options)
    validate(plan)
    assert (plan.planner, plan.workers) == (name, workers)
    assert set(np.unique(plan.cell_leaf)) == set(range(plan.leaves))
    rows = plan_row(plan), unit_rows(plan), nodes_from_rows(node_rows(plan.nodes))
    again = small_plan(name, shuffled(sample, seed), workers)
    for other in (plan_from_rows(*rows), pickle.loads(pickle.dumps(plan)), again):
        assert identical_plans(plan, other)
    assert options == SMALL
    for field in fields(sample):
        assert np.array_equal(getattr(sample, field.name), getattr(before, field.name))
    check_meetings(plan, sample)
    check_meetings(plan, later)


@examples(60)
@given(seen=samples(), later=samples(), workers=some_workers, seed=st.integers(0, 2**32 - 1))
def test_hybrid_where_few_are_enough_to_judge(
    seen: WorkloadSample, later: WorkloadSample, workers: int, seed: int
) -> None:
    """Else nodes of so small samples are never partitioned by text."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (hybrid, grow_tree):
            patch.setattr(module, "MIN_ROWS", 1)
        plan = small_plan("hybrid", seen, workers)
        assert identical_plans(plan, small_plan("hybrid", shuffled(seen, seed), workers))
    validate(plan)
    check_meetings(plan, seen)
    check_meetings(plan, later)


def test_few_are_enough_for_a_leaf_by_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (hybrid, grow_tree):
        monkeypatch.setattr(module, "MIN_ROWS", 1)
    words = [[i % 40] for i in range(300)]
    wide = make_sample([(x / 300, 0.5) for x in range(300)], words, [(0, 0, 1, 1)] * 300, words)
    plan = small_plan("hybrid", wide, 4)
    assert (plan.leaf_unit < 0).any()
    check_meetings(plan, wide)


def everywhere(count: int, terms: list[list[int]]) -> WorkloadSample:
    """Points over (0, 0, 1, 1) at random, a box of 0.01 around each."""
    points = np.random.default_rng(3).random((count, 2))
    boxes = [(x - 0.005, y - 0.005, x + 0.005, y + 0.005) for x, y in points.tolist()]
    return make_sample([tuple(p) for p in points.tolist()], terms, boxes, terms)


NAMED = {
    "nothing": make_sample([], [], [], []),
    "objects only": make_sample([(x, x * x % 1.0) for x in np.linspace(0, 9, 50).tolist()], [[1]] * 50, [], []),
    "subscriptions only": make_sample([], [], [(0, 0, 1, 1), (5, 5, 6, 6)], [[1], [2]]),
    "one object": make_sample([(3, 4)], [[1]], [], []),
    "one point many times": make_sample([(3, 4)] * 300, [[1]] * 300, [(3, 4, 3, 4)] * 300, [[1]] * 300),
    "one term only": everywhere(300, [[7]] * 300),
    "all terms distinct": everywhere(300, [[i] for i in range(300)]),
    "no terms": everywhere(300, [[]] * 300),
    "the whole world": make_sample([(0, 0)] * 9, [list(TERMS)] * 9, [(-180, -90, 180, 90)] * 300, [[1]] * 300),
}


@every_planner
@pytest.mark.parametrize("world", NAMED)
@pytest.mark.parametrize("workers", [1, 3, 70])
def test_named_worlds(name: str, world: str, workers: int) -> None:
    plan = small_plan(name, NAMED[world], workers)
    check_meetings(plan, NAMED[world])
    loads = compute_worker_loads(NAMED[world], plan, COST)
    assert np.isfinite(loads.load).all()
    assert np.isfinite(loads.imbalance)


@space_planners
def test_a_raster_of_one_cell(name: str) -> None:
    plan = make_plan(name, NAMED["one term only"], 4, COST, {"columns": 1, "rows": 1})
    assert (plan.units, plan.cell_leaf.tolist()) == (1, [0])


@space_planners
def test_without_data_the_area_is_shared_out(name: str) -> None:
    plan = make_plan(name, NAMED["nothing"], 8, COST)
    cells = np.bincount(plan.unit_worker[plan.leaf_unit[plan.cell_leaf]], minlength=8)
    assert cells.min() >= 0.9 * cells.max()


@lru_cache(maxsize=1)
def even_world() -> WorkloadSample:
    """20,000 objects and small boxes, spread evenly."""
    return everywhere(20_000, [[1]] * 20_000)


@lru_cache(maxsize=1)
def crowded_world() -> WorkloadSample:
    """Nine in ten of 20,000 objects around three towns, the largest with half of them."""
    rng = np.random.default_rng(5)
    towns = np.array([(0.2, 0.3), (0.8, 0.7), (0.3, 0.9)])[rng.choice(3, 20_000, p=[0.5, 0.3, 0.2])]
    points = np.where(rng.random((20_000, 1)) < 0.1, rng.random((20_000, 2)), towns + rng.normal(0, 0.04, (20_000, 2)))
    boxes = [(x - 0.01, y - 0.01, x + 0.01, y + 0.01) for x, y in points.tolist()]
    return make_sample([tuple(p) for p in points.tolist()], [[1]] * 20_000, boxes, [[1]] * 20_000)


@lru_cache(maxsize=1)
def even_words() -> WorkloadSample:
    """Words as frequent as each other, one in each of 20,000 objects."""
    return everywhere(20_000, np.random.default_rng(3).integers(0, 500, 20_000)[:, None].tolist())


@lru_cache(maxsize=1)
def frequent_words() -> WorkloadSample:
    """Words under a power law, three in each of 20,000 objects."""
    law = PowerLaw(2_000, shift=10.0)
    return everywhere(20_000, law.ranks(np.random.default_rng(3).random((20_000, 3))).tolist())


@even_planners
@pytest.mark.parametrize("workers", [3, 16])
def test_even_worlds_are_shared_evenly(name: str, workers: int) -> None:
    """Nobody has more than 1.25 times as much as another."""
    sample = even_world()
    loads = compute_worker_loads(sample, make_plan(name, sample, workers, COST), COST)
    assert loads.imbalance <= 1.25
    assert loads.objects.sum() == 20_000


@even_planners
@pytest.mark.parametrize("workers", [13])
def test_crowded_worlds_are_shared_evenly(name: str, workers: int) -> None:
    """Nobody has more than 1.5 times as much as another."""
    sample = crowded_world()
    loads = compute_worker_loads(sample, make_plan(name, sample, workers, COST), COST)
    assert loads.imbalance <= 1.5


@text_planners
def test_a_text_plan_is_one_leaf_and_its_units_share_unseen_terms(name: str) -> None:
    for world in ("nothing", "one term only", "all terms distinct"):
        plan = make_plan(name, NAMED[world], 8, COST)
        assert (plan.leaves, plan.units, plan.spread_unit.tolist()) == (1, 8, list(range(8)))
        assert plan.terms.tolist() == np.unique(NAMED[world].post_terms).tolist()


def test_keyword_hash_lists_no_term() -> None:
    plan = make_plan("keyword_hash", NAMED["all terms distinct"], 8, COST)
    assert (plan.leaves, plan.units, plan.terms.tolist()) == (1, 8, [])
    assert plan.spread_unit.tolist() == plan.unit_worker.tolist() == list(range(8))


@pytest.mark.parametrize(("workers", "sides"), [(1, (1, 1)), (7, (7, 1)), (8, (4, 2)), (12, (4, 3)), (16, (4, 4))])
def test_uniform_rectangles_are_equal(workers: int, sides: tuple[int, int]) -> None:
    """Whatever the load: nearly all objects are at one point."""
    plan = make_plan("uniform", NAMED["one point many times"], workers, COST, {"columns": 840, "rows": 840})
    leaf = plan.cell_leaf.reshape(840, 840)
    assert (len(set(leaf[0].tolist())), len(set(leaf[:, 0].tolist()))) == sides
    assert np.bincount(plan.cell_leaf).tolist() == [840 * 840 // workers] * workers


@text_planners
@pytest.mark.parametrize("workers", [2, 13])
def test_even_words_are_shared_evenly(name: str, workers: int) -> None:
    """Nobody has more than 1.25 times as much as another."""
    sample = even_words()
    loads = compute_worker_loads(sample, make_plan(name, sample, workers, COST), COST)
    assert loads.imbalance <= 1.25
    assert loads.objects.sum() == 20_000


@text_planners
@pytest.mark.parametrize("workers", [8])
def test_frequent_words_are_shared_evenly(name: str, workers: int) -> None:
    """Nobody has more than 1.5 times as much as another."""
    sample = frequent_words()
    loads = compute_worker_loads(sample, make_plan(name, sample, workers, COST), COST)
    assert loads.imbalance <= 1.5


@pytest.mark.parametrize("name", ["hypergraph", "metric"])
def test_words_that_go_together_stay_together(name: str) -> None:
    """Objects and subscriptions of 40 topics without a word in common: hardly any goes to two workers."""
    rng = np.random.default_rng(3)
    words = [(rng.choice(6, 3, replace=False) + 6 * rng.integers(0, 40)).tolist() for _ in range(5_000)]
    sample = everywhere(5_000, words)
    loads = compute_worker_loads(sample, make_plan(name, sample, 4, COST), COST)
    assert loads.objects.sum() <= 1.1 * 5_000
    assert loads.imbalance <= 1.25
