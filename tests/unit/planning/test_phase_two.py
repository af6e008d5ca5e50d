"""The plan of the hybrid planner against phase two of Algorithm 1 with counted rows, from the nodes of phase one; the
plan of the kd-tree against the trees of phase two.
"""

from collections import Counter

import numpy as np
import pytest

from pststream.planning.live_terms import sort_sample
from pststream.planning.load_model import CostModel
from pststream.planning.planners import grow_tree, hybrid
from pststream.planning.planners.rectangle_cuts import Rectangle
from pststream.planning.planners.registry import make_plan
from pststream.planning.planners.tree_nodes import Workload, choose_partitions_of_nodes, make_whole_node
from pststream.planning.raster import compute_cell_ranges, fit_raster
from pststream.planning.region_counts import build_region_counts
from pststream.plans.plan import DispatchGrid, PartitionPlan
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample
from tests.oracles import ps2stream
from tests.plans import TERMS, make_sample, unpack

COLUMNS, ROWS = 7, 5
WHOLE = (0, 0, COLUMNS - 1, ROWS - 1)
WORLDS = 60

RATES = (256, 512, 768, 1)
"""Load of a pair, an object, a subscription, a unit of `reads`."""

COST = CostModel(check=256.0, object=512.0, insert=768.0, delete=0.0, posting=float(POSTING_READS))

Unit = tuple[frozenset[int], tuple[int, ...] | None, int]
"""Cells, terms (None: all), worker."""


def draw_world(rng: np.random.Generator) -> WorkloadSample:
    """Objects and boxes of any size; the terms depend on the longitude in the south and are at random in the north."""
    points, middles = (rng.uniform((-10.0, 30.0), (30.0, 60.0), (count, 2)) for count in rng.choice((10, 60, 90), 2))
    half, known, shift = rng.choice((1.0, 1.0, 3.0, 15.0)), rng.choice((2, 8, 8, 8)), rng.integers(3)

    def draw_terms(places: np.ndarray, shift: int) -> list[list[int]]:
        return [
            [TERMS[int(lon // 8 + 2 + shift) % known]] if lat < 45.0 else rng.choice(TERMS[:known], 2).tolist()
            for lon, lat in places.tolist()
        ]

    rectangles = [(x - half, y - half, x + half, y + half) for x, y in middles.tolist()]
    return make_sample(
        [tuple(p) for p in points.tolist()], draw_terms(points, 0), rectangles, draw_terms(middles, int(shift))
    )


def counted_world(sample: WorkloadSample, grid: DispatchGrid, least_sum: bool) -> ps2stream.World:
    """The rows of a sample on a raster."""
    live = set(sample.post_terms.tolist())
    terms, reads = (unpack(sample.term_offsets, values) for values in (sample.terms, sample.reads))
    own = [{term: read for term, read in zip(*pair) if term in live} for pair in zip(terms, reads)]
    objects = list(zip(grid.cell_x(sample.lon).tolist(), grid.cell_y(sample.lat).tolist(), own))
    posts = map(set, unpack(sample.post_offsets, sample.post_terms))
    boxes = list(zip(map(tuple, compute_cell_ranges(grid, sample.boxes).tolist()), posts))
    return ps2stream.World(objects, boxes, RATES, least_sum)


def nodes_of_phase_one(
    sample: WorkloadSample, grid: DispatchGrid, delta: float, most: int
) -> list[tuple[ps2stream.Part, bool]]:
    """The nodes of phase one, which has a twin of its own, and whether each belongs to N_t."""
    rows = sort_sample(sample, grid), build_region_counts(sample, grid)
    return [(region.rectangle, region.by_text) for region in hybrid.split_by_similarity(*rows, delta, most)]


def units_of(plan: PartitionPlan) -> list[Unit]:
    """List the units of a plan; the terms of one that is served whole are None."""
    cells = [frozenset(np.flatnonzero(plan.cell_leaf == leaf).tolist()) for leaf in range(plan.leaves)]
    terms: list[list[int]] = [[] for _ in range(plan.units)]
    leaf_of = np.full(plan.units, -1)
    for leaf in range(plan.leaves):
        spread = plan.spread_unit[plan.spread_offsets[leaf] : plan.spread_offsets[leaf + 1]].tolist()
        assert (plan.leaf_unit[leaf] < 0) == bool(spread)
        leaf_of[spread or plan.leaf_unit[leaf]] = leaf
        for at in range(plan.term_offsets[leaf], plan.term_offsets[leaf + 1]):
            assert plan.term_unit[at] in spread
            terms[plan.term_unit[at]].append(int(plan.terms[at]))
    whole = set(plan.leaf_unit.tolist())
    return [
        (cells[leaf_of[unit]], None if unit in whole else tuple(terms[unit]), int(plan.unit_worker[unit]))
        for unit in range(plan.units)
    ]


def expected_units(leaves: list[ps2stream.Leaf], owner: list[int]) -> list[Unit]:
    units = []
    for leaf, worker in zip(leaves, owner, strict=True):
        x0, y0, x1, y1 = leaf.part
        cells = frozenset(y * COLUMNS + x for x in range(x0, x1 + 1) for y in range(y0, y1 + 1))
        units.append((cells, None if leaf.terms is None else tuple(sorted(leaf.terms)), worker))
    return units


def test_the_kd_tree_is_the_best_of_four_trees_without_text() -> None:
    """Leaf by leaf, the low sides first, each with a worker of its own."""
    cut = 0
    for seed in range(WORLDS):
        rng = np.random.default_rng(seed)
        sample, workers = draw_world(rng), int(rng.integers(1, 13))
        plan = make_plan("kd_tree", sample, workers, COST, {"columns": COLUMNS, "rows": ROWS})
        world, trees = counted_world(sample, plan.grid, False), list[ps2stream.Tree]()
        for _ in range(4):
            trees.append(ps2stream.grow(world, WHOLE, workers, False, trees[-1] if trees else None))
        leaves = min(trees, key=lambda tree: max(tree.loads)).leaves(world)
        assert units_of(plan) == expected_units(leaves, list(range(len(leaves)))), f"world {seed}"
        cut += len(leaves) > 2
    assert cut > WORLDS / 2


@pytest.mark.parametrize("objective", ["max", "sum"])
def test_the_plan_is_that_of_algorithm_1(monkeypatch: pytest.MonkeyPatch, objective: str) -> None:
    monkeypatch.setattr(hybrid, "MIN_ROWS", 1)
    monkeypatch.setattr(grow_tree, "MIN_ROWS", 0)
    seen = Counter[str]()
    for seed in range(WORLDS):
        rng = np.random.default_rng(seed)
        sample, workers, theta = draw_world(rng), int(rng.integers(1, 13)), int(rng.integers(1, 24))
        delta, sigma = (float(rng.choice(values)) for values in ((0.6, 0.9, 0.95), (1.0, 1.1, 2.0)))
        options = {"columns": COLUMNS, "rows": ROWS, "delta": delta, "sigma": sigma, "theta": theta}
        plan = make_plan("hybrid", sample, workers, COST, {**options, "objective": objective})
        grid = fit_raster(sample.lon, sample.lat, sample.boxes, COLUMNS, ROWS)
        nodes = nodes_of_phase_one(sample, grid, delta, max(theta, workers))
        world = counted_world(sample, grid, objective == "sum")
        leaves, owner, _ = ps2stream.phase_two(world, nodes, WHOLE, workers, sigma, theta)
        assert units_of(plan) == expected_units(leaves, owner), f"world {seed}"
        seen["several nodes"] += 1 < len(nodes) < workers
        seen["by text"] += any(leaf.terms is not None for leaf in leaves)
        seen["by space"] += sum(leaf.terms is None for leaf in leaves) > 1
        seen["merged"] += len(leaves) > workers
    assert len(+seen) == 4 and min(seen.values()) >= 3, seen


def test_equal_sums_of_loads_give_the_later_node_fewer_partitions() -> None:
    """Three nodes of N_t that are alike share ten partitions: one gets four, and rounding does not decide which.

    The load for three is interpolated, so that the order in which loads are added decides the last digit of the sum.
    """
    points, words = [(3.5, 2.5), (3.5, 3.5), (2.5, 0.5), (2.5, 3.5), (1.5, 3.5)], [[1], [0], [1], [2], [2]]
    middles, posted = [(2.5, 2.0), (3.5, 0.5), (3.0, 1.0), (0.5, 2.5), (1.5, 1.5)], [[2], [0], [1], [2], [1]]
    halves = [(0.3, 0.8), (0.3, 0.3), (0.8, 0.8), (0.3, 0.3), (0.3, 0.3)]
    boxes = [(x - wide, y - high, x + wide, y + high) for (x, y), (wide, high) in zip(middles, halves)]
    sample = make_sample(
        [(x + east, y) for east in (0, 4, 8) for x, y in points], words * 3,
        [(x0 + east, y0, x1 + east, y1) for east in (0, 4, 8) for x0, y0, x1, y1 in boxes], posted * 3,
    )  # fmt: skip
    grid, parts = DispatchGrid(0.0, 0.0, 12.0, 4.0, 12, 4), [(west, 0, west + 3, 3) for west in (0, 4, 8)]
    counts = build_region_counts(sample, grid)
    workload = Workload(counts, sort_sample(sample, grid), COST.rates(sample), least_sum=True)
    world = counted_world(sample, grid, least_sum=True)
    assert ps2stream.choose_numbers(world, [world.leaf(part, True) for part in parts], 10) == (4, 3, 3)
    nodes = [make_whole_node(Rectangle(*part), True, workload) for part in parts]
    assert choose_partitions_of_nodes(nodes, 10, workload) == [4, 3, 3]
