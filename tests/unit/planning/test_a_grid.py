"""The A-Grid against Tornado's section 4.1 written out cell by cell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.planning.cell_loads import count_cell_checks
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.papers import a_grid
from pststream.planning.planners.registry import make_plan
from pststream.plans.plan import DispatchGrid, PartitionPlan
from pststream.plans.planner_sample import WorkloadSample
from tests.oracles import tornado
from tests.plans import make_sample, samples

COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)


@settings(max_examples=150, deadline=None)
@given(samples(), st.integers(1, 40), st.integers(1, 40))
def test_checks_are_those_of_equation_1(sample: WorkloadSample, columns: int, rows: int) -> None:
    grid = DispatchGrid(-10.0, 30.0, 30.0, 60.0, columns, rows)
    checks = count_cell_checks(sample, grid)
    assert checks.dtype == np.int64
    assert {(x, y): n for (y, x), n in np.ndenumerate(checks)} == tornado.cell_checks(sample, grid)


@settings(max_examples=150, deadline=None)
@given(samples(), st.sampled_from((1, 2, 3, 5, 8, 13)), st.integers(1, 9), st.integers(1, 9))
def test_the_plan_is_that_of_section_4_1(sample: WorkloadSample, workers: int, columns: int, rows: int) -> None:
    plan = make_plan("a_grid", sample, workers, COST, {"columns": columns, "rows": rows})
    parts = tornado.start(tornado.cell_checks(sample, plan.grid), plan.grid.columns, plan.grid.rows, workers)
    expected = {cell: number for number, part in enumerate(parts) for cell in tornado.cells_of(part)}
    leaf = plan.cell_leaf.reshape(plan.grid.rows, plan.grid.columns)
    assert {(x, y): n for (y, x), n in np.ndenumerate(leaf)} == expected
    assert plan.unit_worker.tolist() == list(range(len(parts)))


def spread(count: int, side: float) -> WorkloadSample:
    """Points over (0, 0, 1, 1) at random, each with one word and a box of this side around it."""
    points = np.random.default_rng(3).random((count, 2))
    boxes = [(x - side / 2, y - side / 2, x + side / 2, y + side / 2) for x, y in points.tolist()]
    return make_sample([tuple(p) for p in points.tolist()], [[1]] * count, boxes, [[1]] * count)


def sides(plan: PartitionPlan) -> tuple[int, int]:
    return plan.grid.columns, plan.grid.rows


@pytest.mark.parametrize(("side", "cells"), [(0.01, 100), (0.004, 250), (0.5, a_grid.LEAST_SIDE), (1e-6, 1000)])
def test_cells_are_as_wide_as_the_mean_subscription(side: float, cells: int) -> None:
    assert sides(make_plan("a_grid", spread(2_000, side), 4, COST)) == pytest.approx((cells, cells), abs=1)


def test_options_bound_the_cells() -> None:
    assert sides(make_plan("a_grid", spread(2_000, 0.01), 4, COST, {"columns": 30, "rows": 20})) == (30, 20)
    assert sides(make_plan("a_grid", make_sample([(1, 1)], [[1]], [], []), 4, COST)) == (1000, 1000)


def test_two_four_and_eight_workers_share_an_even_world() -> None:
    sample = spread(20_000, 0.01)
    for workers in (2, 4, 8):
        assert compute_worker_loads(sample, make_plan("a_grid", sample, workers, COST), COST).imbalance <= 1.1


def test_a_hot_cell_is_alone() -> None:
    """Nearly all checks are in one cell, so partitions shrink around it, and it ends as a partition of its own."""
    points = [(x + 0.5, y + 0.5) for x in range(8) for y in range(8)] + [(2.5, 5.5)] * 200
    sample = make_sample(points, [[1]] * len(points), [(x, y, x + 0.9, y + 0.9) for x, y in points[:64]], [[1]] * 64)
    plan = make_plan("a_grid", sample, 8, COST, {"columns": 8, "rows": 8})
    hot = plan.cell_leaf[plan.grid.cell(np.array([2.5]), np.array([5.5]))[0]]
    assert (plan.cell_leaf == hot).sum() == 1 and plan.leaves == 8
