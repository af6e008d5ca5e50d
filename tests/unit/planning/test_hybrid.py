"""The hybrid and kd-tree planners against Algorithm 1 of PS2Stream and against plans by space or text alone."""

import math
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.planning.live_terms import sort_sample
from pststream.planning.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.planning.planners import grow_tree, hybrid
from pststream.planning.planners.grow_tree import RegionTerms, TermGroup, grow_best_tree
from pststream.planning.planners.hybrid import (
    PlanningRegion,
    Workload,
    build_plan,
    choose_partitions_of_nodes,
    make_whole_node,
    partition_node,
)
from pststream.planning.planners.rectangle_cuts import (
    Rectangle,
    estimate_load,
    find_best_cut,
)
from pststream.planning.planners.registry import make_plan
from pststream.planning.raster import compute_cell_ranges, fit_raster
from pststream.planning.region_counts import build_region_counts
from pststream.plans.plan import DispatchGrid, PartitionPlan
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample
from tests.fuzz.cases import examples, seeds
from tests.oracles import ps2stream
from tests.paper_samples import paper_sample
from tests.plans import TERMS, make_sample, samples, unpack

GRID = DispatchGrid(-10.0, 30.0, 30.0, 60.0, 7, 5)
COST = CostModel(1.0, 2.0, 3.0, 0.5, 0.25)


@st.composite
def rectangles(draw: st.DrawFn) -> Rectangle:
    (x0, x1), (y0, y1) = (sorted(draw(st.tuples(*[st.integers(0, n - 1)] * 2))) for n in (7, 5))
    return Rectangle(x0, y0, x1, y1)


def inside(sample: WorkloadSample, node: Rectangle) -> tuple[list[set[int]], list[set[int]]]:
    """Live terms of each object, and posting terms of each box, in a rectangle of cells."""
    live = set(sample.post_terms.tolist())
    x, y = GRID.cell_x(sample.lon), GRID.cell_y(sample.lat)
    objects = [
        set(terms) & live
        for terms, i, j in zip(unpack(sample.term_offsets, sample.terms), x, y)
        if node.x0 <= i <= node.x1 and node.y0 <= j <= node.y1
    ]
    boxes = [
        set(terms)
        for terms, (x0, y0, x1, y1) in zip(
            unpack(sample.post_offsets, sample.post_terms), compute_cell_ranges(GRID, sample.boxes)
        )
        if x0 <= node.x1 and x1 >= node.x0 and y0 <= node.y1 and y1 >= node.y0
    ]
    return objects, boxes


def reads_inside(sample: WorkloadSample, node: Rectangle) -> list[tuple[int, int]]:
    """Each occurrence of a term in an object of a rectangle of cells, and the postings that it reads."""
    x, y = GRID.cell_x(sample.lon), GRID.cell_y(sample.lat)
    here = (x >= node.x0) & (x <= node.x1) & (y >= node.y0) & (y <= node.y1)
    kept = np.repeat(here, np.diff(sample.term_offsets))
    return list(zip(sample.terms[kept].tolist(), sample.reads[kept].tolist()))


CUT_COST = CostModel(1.0, 2.0, 3.0, 0.5)
SQUARE = DispatchGrid(0.0, 0.0, 8.0, 8.0, 8, 8)


@examples(60)
@given(samples(), st.integers(2, 9))
def test_no_cut_is_better(sample: WorkloadSample, workers: int) -> None:
    grid = DispatchGrid(-10.0, 30.0, 30.0, 60.0, 7, 5)
    counts, rates = build_region_counts(sample, grid), CUT_COST.rates(sample)
    loads = []
    for low in {workers // 2, workers - workers // 2}:
        for x in range(6):
            west = estimate_load(counts, rates, low, 0, 0, x, 4)
            loads.append(max(west, estimate_load(counts, rates, workers - low, x + 1, 0, 6, 4)))
        for y in range(4):
            south = estimate_load(counts, rates, low, 0, 0, 6, y)
            loads.append(max(south, estimate_load(counts, rates, workers - low, 0, y + 1, 6, 4)))
    cut = find_best_cut(Rectangle(0, 0, 6, 4), workers, counts, rates)
    assert cut.load <= float(min(loads)) * (1 + 1e-8)
    assert cut.low_workers + cut.high_workers == workers
    assert cut.low.cells + cut.high.cells == 35


def test_later_trees_keep_leaves_by_text() -> None:
    """A raster cell, which cannot be cut, is partitioned by text in all trees, not only in the first."""
    sample = make_sample([(0.5, 0.5)] * 40, [[1], [2]] * 20, [(0.1, 0.1, 0.9, 0.9)] * 20, [[1], [2]] * 10)
    counts, cell = build_region_counts(sample, DispatchGrid(0.0, 0.0, 8.0, 8.0, 1, 1)), Rectangle(0, 0, 0, 0)
    bounds = []

    def by_text(rectangle: Rectangle, workers: int, bound: float) -> list[TermGroup]:
        bounds.append(bound)
        return [TermGroup(np.array([n], np.int32), 10, 5, 0, 10.0) for n in range(workers)]

    tree = grow_best_tree(cell, 4, counts, CostModel(0.0, 1.0, 0.0, 0.0).rates(sample), by_text)
    assert [part.load for part in tree.by_text] == tree.loads.tolist() == [10.0] * 4
    assert bounds == [40.0, np.inf, np.inf, np.inf]


def cosine(sample: WorkloadSample, node: Rectangle) -> float:
    of_objects, of_boxes = (Counter(term for terms in side for term in terms) for side in inside(sample, node))
    norms = math.sqrt(sum(n * n for n in of_objects.values()) * sum(n * n for n in of_boxes.values()))
    return sum(of_objects[term] * of_boxes[term] for term in of_objects) / norms if norms else 1.0


def halves(sample: WorkloadSample, node: Rectangle) -> list[tuple[Rectangle, Rectangle]]:
    """The halves of a node on each axis that can be cut, at the median of its live objects."""
    live = set(sample.post_terms.tolist())
    has = [bool(set(terms) & live) for terms in unpack(sample.term_offsets, sample.terms)]
    cells = list(zip(GRID.cell_x(sample.lon)[has].tolist(), GRID.cell_y(sample.lat)[has].tolist()))
    x0, y0, x1, y1 = node
    columns, rows = zip(*(cell for cell in cells if x0 <= cell[0] <= x1 and y0 <= cell[1] <= y1), strict=True)
    ways = []
    if x0 < x1:
        x = min(sorted(columns)[(len(columns) - 1) // 2], x1 - 1)
        ways.append((Rectangle(x0, y0, x, y1), Rectangle(x + 1, y0, x1, y1)))
    if y0 < y1:
        y = min(sorted(rows)[(len(rows) - 1) // 2], y1 - 1)
        ways.append((Rectangle(x0, y0, x1, y), Rectangle(x0, y + 1, x1, y1)))
    return ways


def regions_of_algorithm_1(sample: WorkloadSample, delta: float) -> set[PlanningRegion]:
    """Lines 1 to 12 of Algorithm 1, node by node; a side without objects or boxes is not split off."""
    undecided, decided = [Rectangle(0, 0, 6, 4)], set[PlanningRegion]()
    while undecided:
        node = undecided.pop()
        similarity = cosine(sample, node)
        if similarity >= delta:
            decided.add(PlanningRegion(node, False))
            continue
        ways = [way for way in halves(sample, node) if all(all(map(any, inside(sample, half))) for half in way)]
        alphas = [min(cosine(sample, half) for half in way) for way in ways]
        if alphas and abs(min(alphas) - similarity) > hybrid.CONSISTENT:
            undecided += ways[alphas.index(min(alphas))]
        else:
            decided.add(PlanningRegion(node, True))
    return decided


def draw_world(
    rng: np.random.Generator,
    counts: Sequence[int] = (10, 60, 90),
    halves: Sequence[float] = (1.0, 1.0, 3.0, 15.0),
    known_terms: Sequence[int] = (2, 8, 8, 8),
) -> WorkloadSample:
    """Objects and boxes of any size; the terms depend on the longitude in the south and are at random in the north."""
    points, middles = (rng.uniform((-10.0, 30.0), (30.0, 60.0), (count, 2)) for count in rng.choice(counts, 2))
    half, known, shift = rng.choice(halves), rng.choice(known_terms), rng.integers(3)

    def draw_terms(places: np.ndarray, shift: int) -> list[list[int]]:
        return [
            [TERMS[int(lon // 8 + 2 + shift) % known]] if lat < 45.0 else rng.choice(TERMS[:known], 2).tolist()
            for lon, lat in places.tolist()
        ]

    rectangles = [(x - half, y - half, x + half, y + half) for x, y in middles.tolist()]
    return make_sample(
        [tuple(p) for p in points.tolist()], draw_terms(points, 0), rectangles, draw_terms(middles, int(shift))
    )


@seeds(12)
@pytest.mark.parametrize("delta", [0.8, 0.9, 0.99])
def test_phase_one_is_that_of_algorithm_1(monkeypatch: pytest.MonkeyPatch, seed: int, delta: float) -> None:
    sample = draw_world(np.random.default_rng(seed), (60, 80), (1.0,), (8,))
    counts, sorted_sample = build_region_counts(sample, GRID), sort_sample(sample, GRID)
    monkeypatch.setattr(hybrid, "MIN_ROWS", 1)
    regions = hybrid.split_by_similarity(sorted_sample, counts, delta, 99)
    assert len(regions) == len(set(regions)) and set(regions) == regions_of_algorithm_1(sample, delta)
    assert len(regions) > 1 or delta < 0.99


@examples(60)
@given(samples(), st.floats(0.0, 1.0), st.integers(1, 9))
def test_phase_one_covers_each_cell_once(sample: WorkloadSample, delta: float, max_regions: int) -> None:
    counts, sorted_sample = build_region_counts(sample, GRID), sort_sample(sample, GRID)
    min_rows, hybrid.MIN_ROWS = hybrid.MIN_ROWS, 1
    try:
        regions = hybrid.split_by_similarity(sorted_sample, counts, delta, max_regions)
    finally:
        hybrid.MIN_ROWS = min_rows
    cells = np.zeros((5, 7), dtype=int)
    for (x0, y0, x1, y1), by_text in ((region.rectangle, region.by_text) for region in regions):
        cells[y0 : y1 + 1, x0 : x1 + 1] += 1
        assert by_text == (cosine(sample, Rectangle(x0, y0, x1, y1)) < delta)
    assert (cells == 1).all()
    assert len(regions) <= max_regions


@examples(60)
@given(samples(), rectangles(), st.integers(1, 5))
def test_term_groups_equal_counting(sample: WorkloadSample, node: Rectangle, groups: int) -> None:
    rates, sorted_sample = COST.rates(sample), sort_sample(sample, GRID)
    term_groups = RegionTerms(node, sorted_sample).cut(groups, rates)
    objects, boxes = inside(sample, node)
    of_terms = reads_inside(sample, node)
    assert 1 <= len(term_groups) <= groups
    named = [term for group in term_groups for term in sorted_sample.term_ids[group.terms].tolist()]
    assert sorted(named) == sorted(set().union(*objects, *boxes))
    for group in term_groups:
        terms = set(sorted_sample.term_ids[group.terms].tolist())
        assert group.objects == sum(bool(terms & some) for some in objects)
        assert group.subscriptions == sum(bool(terms & some) for some in boxes)
        read = sum(reads for term, reads in of_terms if term in terms)
        assert group.reads == read
        assert group.load == pytest.approx(rates.load(*map(np.array, (group.objects, group.subscriptions, read))))


@examples(60)
@given(samples(), st.integers(1, 4))
def test_no_cut_of_the_same_order_is_much_better(sample: WorkloadSample, groups: int) -> None:
    """Compared with the least bound under which at most `groups` runs are needed."""
    node, rates, sorted_sample = Rectangle(0, 0, 6, 4), COST.rates(sample), sort_sample(sample, GRID)
    text = RegionTerms(node, sorted_sample)
    order, (objects, boxes) = sorted_sample.term_ids[text.terms].tolist(), inside(sample, node)
    of_terms = reads_inside(sample, node)

    def load(first: int, end: int) -> float:
        terms = set(order[first:end])
        o, s = sum(bool(terms & some) for some in objects), sum(bool(terms & some) for some in boxes)
        return float(rates.load(*map(np.array, (o, s, sum(n for term, n in of_terms if term in terms)))))

    best = [[math.inf] * (groups + 1) for _ in range(len(order) + 1)]
    best[0] = [0.0] * (groups + 1)
    for end in range(1, len(order) + 1):
        for used in range(1, groups + 1):
            best[end][used] = min(max(best[first][used - 1], load(first, end)) for first in range(end))
    term_groups = text.cut(groups, rates)
    assert max((group.load for group in term_groups), default=0.0) <= best[len(order)][groups] / 0.98 + 1e-9
    if order:
        assert text.cut(groups, rates, best[len(order)][groups] * 0.9 - 1.0) == []


COLUMNS, ROWS = 7, 5
WHOLE_RASTER = (0, 0, COLUMNS - 1, ROWS - 1)
WORLDS = 60

RATES = (256, 512, 768, 1)
"""Load of a pair, an object, a subscription, a unit of `reads`."""

EXACT_COST = CostModel(check=256.0, object=512.0, insert=768.0, delete=0.0, posting=float(POSTING_READS))

Unit = tuple[frozenset[int], tuple[int, ...] | None, int]
"""Cells, terms (None: all), worker."""


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
        plan = make_plan("kd_tree", sample, workers, EXACT_COST, {"columns": COLUMNS, "rows": ROWS})
        world, trees = counted_world(sample, plan.grid, False), list[ps2stream.Tree]()
        for _ in range(4):
            trees.append(ps2stream.grow(world, WHOLE_RASTER, workers, False, trees[-1] if trees else None))
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
        plan = make_plan("hybrid", sample, workers, EXACT_COST, {**options, "objective": objective})
        grid = fit_raster(sample.lon, sample.lat, sample.boxes, COLUMNS, ROWS)
        nodes = nodes_of_phase_one(sample, grid, delta, max(theta, workers))
        world = counted_world(sample, grid, objective == "sum")
        leaves, owner, _ = ps2stream.phase_two(world, nodes, WHOLE_RASTER, workers, sigma, theta)
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
    workload = Workload(counts, sort_sample(sample, grid), EXACT_COST.rates(sample), least_sum=True)
    world = counted_world(sample, grid, least_sum=True)
    assert ps2stream.choose_numbers(world, [world.leaf(part, True) for part in parts], 10) == (4, 3, 3)
    nodes = [make_whole_node(Rectangle(*part), True, workload) for part in parts]
    assert choose_partitions_of_nodes(nodes, 10, workload) == [4, 3, 3]


MEASURED_COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)
COUNT = 20_000


def workload_of(sample: WorkloadSample, columns: int = 16) -> Workload:
    grid = fit_raster(sample.lon, sample.lat, sample.boxes, columns, columns)
    return Workload(build_region_counts(sample, grid), sort_sample(sample, grid), MEASURED_COST.rates(sample))


def text_loads(sample: WorkloadSample, workers: int) -> WorkerLoads:
    """Loads of a plan by text alone."""
    work = workload_of(sample, 1)
    nodes = partition_node(make_whole_node(Rectangle(0, 0, 0, 0), True, work), workers, work)
    grid, ids = work.sample.grid, work.sample.term_ids
    return compute_worker_loads(sample, build_plan(nodes, np.arange(len(nodes)), grid, ids, workers, {}), MEASURED_COST)


@pytest.mark.parametrize(
    ("kind", "rare", "at_most"),
    [("q1", 1.0, 1.02), ("q2", 1.0, 1.02), ("q2", 0.0, 0.85), ("q3", 1.0, 1.02), ("q3", 0.0, 0.9)],
)
def test_is_never_much_worse_than_space_or_text_alone(kind: str, rare: float, at_most: float) -> None:
    sample = paper_sample(kind, COUNT, COUNT, rare=rare)
    loads = compute_worker_loads(sample, make_plan("hybrid", sample, 8, MEASURED_COST), MEASURED_COST)
    by_space = [
        compute_worker_loads(sample, make_plan(name, sample, 8, MEASURED_COST), MEASURED_COST)
        for name in ("kd_tree", "grid")
    ]
    assert loads.max <= at_most * min(other.max for other in by_space)
    assert loads.total <= 1.02 * min(other.total for other in by_space)
    assert loads.max <= 1.02 * text_loads(sample, 8).max


@pytest.mark.parametrize("workers", [2, 8, 32])
@pytest.mark.parametrize("kind", ["q1", "q2", "q3"])
def test_loads_are_within_sigma(kind: str, workers: int) -> None:
    """Up to the rows that nodes of one worker share, which the assignment counts twice, and the price of balance."""
    sample = paper_sample(kind, COUNT, COUNT)
    plan = make_plan("hybrid", sample, workers, MEASURED_COST)
    assert plan.options["sigma"] == 1.1
    assert compute_worker_loads(sample, plan, MEASURED_COST).imbalance <= 1.15


@pytest.mark.parametrize("kind", ["q1", "q3"])
def test_algorithm_1_as_written_is_within_sigma_and_not_above_a_kd_tree(kind: str) -> None:
    """Up to the rows that nodes of one worker share, which the assignment counts twice."""
    sample = paper_sample(kind, COUNT, COUNT)
    paper = make_plan("hybrid", sample, 8, MEASURED_COST, {"objective": "sum", "sigma": 1.2})
    plain = make_plan("plain_kd_tree", sample, 8, MEASURED_COST)
    loads = compute_worker_loads(sample, paper, MEASURED_COST)
    assert loads.imbalance <= 1.25
    assert loads.total <= 1.02 * compute_worker_loads(sample, plain, MEASURED_COST).total


def test_equal_sums_by_text_and_by_space_cut_a_node_by_space() -> None:
    """Four topics in a cell each: both ways make the same four groups, whose loads are added in another order."""
    rnd = random.Random(7)
    for _ in range(20):
        objects, boxes = ([rnd.randrange(150, 400) for _ in range(4)] for _ in range(2))
        sample = make_sample(
            [(x + 0.5, 0.5) for x in range(4) for _ in range(objects[x])],
            [[x] for x in range(4) for _ in range(objects[x])],
            [(x + 0.4, 0.4, x + 0.6, 0.6) for x in range(4) for _ in range(boxes[x])],
            [[x] for x in range(4) for _ in range(boxes[x])],
        )
        grid, whole = DispatchGrid(0.0, 0.0, 4.0, 1.0, 4, 1), Rectangle(0, 0, 3, 0)
        counts = build_region_counts(sample, grid)
        workload = Workload(counts, sort_sample(sample, grid), MEASURED_COST.rates(sample), least_sum=True)
        nodes = partition_node(make_whole_node(whole, False, workload), 4, workload)
        assert [(node.rectangle.x0, node.by_text) for node in nodes] == [(x, False) for x in range(4)]
