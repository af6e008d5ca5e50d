"""Tornado's operations against sections 4.2 and 4.3 written out cell by cell, and adjustments made of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.base.errors import UsageError
from pststream.planning.balancing.contract import BalancingTask, adjust
from pststream.planning.balancing.shift import (
    PartitionCosts,
    Partitions,
    choose_operation,
    find_partitions,
    split_evenly,
)
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.rectangle_cuts import Rectangle
from pststream.planning.planners.registry import make_plan
from pststream.planning.region_counts import build_area_sums, build_region_counts
from pststream.plans.plan import DispatchGrid, PartitionPlan, space_plan
from pststream.plans.planner_sample import WorkloadSample
from tests.oracles import tornado
from tests.plans import make_sample, quarters
from tests.routes import check_meetings

COST = CostModel(5e-8, 2e-6, 2e-6, 5e-7)

seeds = st.integers(0, 2**32 - 1)


def task_of(sample: WorkloadSample, plan: PartitionPlan, target: float = 1.2, transfer: float = 0.0) -> BalancingTask:
    nothing = np.zeros(plan.workers)
    return BalancingTask("shift", sample, plan, COST, target, nothing, nothing, transfer)


@settings(max_examples=300, deadline=None)
@given(seeds, st.integers(2, 9), st.integers(1, 8), st.integers(1, 8), st.sampled_from((0, 0.25, 2)))
def test_the_operation_is_the_one_of_the_paper(seed: int, workers: int, columns: int, rows: int, beta: float) -> None:
    """Any rectangles that cuts make, few costs, many ties, some of them zero."""
    rng = np.random.default_rng(seed)
    grid = DispatchGrid(0.0, 0.0, float(columns), float(rows), columns, rows)
    parts = [(0, 0, columns - 1, rows - 1)]
    while len(parts) < workers and any(tornado.splits(part) for part in parts):
        part = parts.pop(rng.choice([i for i, part in enumerate(parts) if tornado.splits(part)]))
        parts += rng.permutation(tornado.splits(part))[0].tolist()
    partitions: Partitions = {worker: Rectangle(*part) for worker, part in enumerate(parts)}
    checks = rng.integers(0, rng.choice((2, 5, 40)), (rows, columns)).astype(np.float64)
    corners = np.sort(rng.integers(0, (columns, rows), (12, 2, 2)), axis=1)
    boxes = [(*low, *high) for low, high in corners.tolist()]
    sample = make_sample([], [], [(w + 0.2, s + 0.2, e + 0.8, n + 0.8) for w, s, e, n in boxes], [[1]] * 12)
    costs = PartitionCosts(build_area_sums(checks), build_region_counts(sample, grid), beta)
    chosen = choose_operation(partitions, costs)
    by_cell = {(x, y): float(value) for (y, x), value in np.ndenumerate(checks)}
    expected = tornado.balanced(by_cell, boxes, {worker: tuple(part) for worker, part in enumerate(parts)}, beta)
    if chosen is None or expected is None:
        assert chosen is expected is None
        return
    owner = {cell: worker for worker, part in partitions.items() for cell in tornado.cells_of(part)}
    for transfer in chosen.transfers:
        for cell in tornado.cells_of(transfer.cells):
            assert owner[cell] == transfer.origin
            owner[cell] = transfer.target
    assert chosen.kind == expected[0]
    assert owner == {cell: worker for worker, part in expected[1].items() for cell in tornado.cells_of(part)}


def test_the_split_of_figure_5() -> None:
    """Costs 1, 2 and 1 at (2, 3), (4, 2) and (4, 4): rows 2 and 3 apart, with a difference of 0."""
    checks = np.zeros((6, 6))
    checks[3, 2], checks[2, 4], checks[4, 4] = 1, 2, 1
    counts = build_region_counts(make_sample([], [], [], []), DispatchGrid(0.0, 0.0, 6.0, 6.0, 6, 6))
    halves = split_evenly(Rectangle(1, 1, 5, 5), PartitionCosts(build_area_sums(checks), counts, 1.0))
    assert halves == (Rectangle(1, 1, 5, 2), Rectangle(1, 3, 5, 5))


def crowd(seed: int = 3) -> WorkloadSample:
    """2,000 points, most of them around one town in the south-west quarter, with a small box around each."""
    rng = np.random.default_rng(seed)
    points = np.clip(np.vstack([rng.normal(1.5, 0.6, (1500, 2)), rng.random((500, 2)) * 8]), 0.01, 7.99)
    boxes = [(x - 0.1, y - 0.1, x + 0.1, y + 0.1) for x, y in points.tolist()]
    return make_sample([tuple(p) for p in points.tolist()], [[1]] * 2000, boxes, [[1]] * 2000)


def fine_quarters(workers: int = 4) -> PartitionPlan:
    """A raster of 64 x 64 cells over (0, 0, 8, 8) in four quarters, one worker each."""
    x, y = np.arange(4096) % 64, np.arange(4096) // 64
    grid = DispatchGrid(0.0, 0.0, 8.0, 8.0, 64, 64)
    return space_plan("quarters", grid, (y // 32) * 2 + x // 32, np.arange(4), workers)


def test_levels_the_workers_and_keeps_rectangles() -> None:
    sample, plan = crowd(), fine_quarters()
    adjustment = adjust(task_of(sample, plan, 1.5))
    assert adjustment.after.max < 0.5 * adjustment.before.max
    assert set(adjustment.reasons) <= {"split_merge", "shift", "corner_shift"}
    assert len(find_partitions(adjustment.plan)) == 4
    assert compute_worker_loads(sample, adjustment.plan, COST).max < 0.5 * adjustment.before.max
    check_meetings(adjustment.plan, sample)


def test_measured_loads_count_not_modelled_ones() -> None:
    """By the model the workers are even; worker 3 was measured to take three times as long, so it gives cells away."""
    points = [(x / 10, y / 10) for x in range(1, 80, 2) for y in range(1, 80, 2)]
    boxes = [(x - 0.1, y - 0.1, x + 0.1, y + 0.1) for x, y in points]
    sample = make_sample(points, [[1]] * len(points), boxes, [[1]] * len(points))
    plan, nothing = fine_quarters(), np.zeros(4)
    rest = np.array([0.0, 0.0, 0.0, 2 * compute_worker_loads(sample, plan, COST).max])
    adjustment = adjust(BalancingTask("shift", sample, plan, COST, 1.5, rest, nothing, 0.0))
    assert adjustment.moves[0].origin == 3
    assert adjustment.after.load[3] < 0.7 * adjustment.before.load[3]
    assert adjustment.after.load.sum() == pytest.approx(adjustment.before.load.sum())


def test_nothing_moves_if_a_transfer_costs_more_than_it_gains() -> None:
    assert adjust(task_of(crowd(), fine_quarters(), 1.5, transfer=1.0)).moves == []


def test_no_operation_reaches_an_idle_rectangle_as_wide_as_two_busy_ones() -> None:
    """The paper's rule stops here: the busy ones can only give to each other, and no two others form a rectangle."""
    seconds = np.ones((3, 4))
    seconds[2] = 0.0
    counts = build_region_counts(make_sample([], [], [], []), DispatchGrid(0.0, 0.0, 4.0, 3.0, 4, 3))
    costs = PartitionCosts(build_area_sums(seconds), counts, 0.0)
    busy = {0: Rectangle(0, 0, 1, 1), 1: Rectangle(2, 0, 3, 1)}
    assert choose_operation(busy | {2: Rectangle(0, 2, 3, 2)}, costs) is None
    halves = {2: Rectangle(0, 2, 1, 2), 3: Rectangle(2, 2, 3, 2)}
    assert choose_operation(busy | halves, costs) is not None


def test_nothing_moves_within_the_target() -> None:
    assert adjust(task_of(crowd(), fine_quarters(), 1e6)).moves == []


def test_a_worker_without_cells_takes_no_part() -> None:
    adjustment = adjust(task_of(crowd(), fine_quarters(workers=5), 1.5))
    assert adjustment.moves and sorted(find_partitions(adjustment.plan)) == [0, 1, 2, 3]


def test_plans_of_other_shapes_are_refused() -> None:
    sample = crowd()
    for plan in (quarters(workers=2), make_plan("metric", sample, 3, COST), make_plan("quadtree", sample, 3, COST)):
        if plan.planner == "quarters":  # diagonal quarters of one worker
            plan.unit_worker[:] = [0, 1, 1, 0]
        with pytest.raises(UsageError, match="one rectangle"):
            adjust(task_of(sample, plan))
