"""The quadtree against SSTD's Equation 2 and Algorithm 1 written out with sets and fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.papers.query_statistics import collect_query_statistics
from pststream.planning.planners.registry import make_plan
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample
from tests.oracles import sstd
from tests.plans import asked_samples, make_sample

COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)
GRID = DispatchGrid(-10.0, 30.0, 30.0, 60.0, 9, 7)


@settings(max_examples=150, deadline=None)
@given(asked_samples(), st.tuples(*[st.integers(0, 8), st.integers(0, 6)] * 2))
def test_workloads_are_those_of_equation_2(sample: WorkloadSample, part: tuple[int, int, int, int]) -> None:
    statistics = collect_query_statistics(sample, GRID)
    workload = statistics.workload(statistics.inside(statistics.whole, *part))
    assert workload == pytest.approx(sstd.Statistics(sample, GRID).workload(part), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(asked_samples(), st.sampled_from((1, 2, 3, 8)), st.integers(1, 40), st.integers(1, 9), st.integers(1, 9))
def test_the_plan_is_that_of_algorithm_1(
    sample: WorkloadSample, workers: int, theta: int, columns: int, rows: int
) -> None:
    plan = make_plan("quadtree", sample, workers, COST, {"columns": columns, "rows": rows, "theta": theta})
    leaves = sstd.quadtree(sstd.Statistics(sample, plan.grid), columns, rows, theta)
    cells = plan.cell_leaf.reshape(rows, columns)
    made = {tuple(int(n) for n in (x.min(), y.min(), x.max(), y.max())) for y, x in map(np.nonzero, _masks(cells))}
    assert made == {part for part, _ in leaves}
    assert plan.leaves == len(leaves)


def _masks(cells: np.ndarray) -> list[np.ndarray]:
    return [cells == leaf for leaf in range(int(cells.max()) + 1)]


def crowd(count: int) -> WorkloadSample:
    """Points around one town, each with one word and a small box around it."""
    points = np.clip(np.random.default_rng(3).normal(0.3, 0.1, (count, 2)), 0.0, 1.0)
    boxes = [(x - 0.005, y - 0.005, x + 0.005, y + 0.005) for x, y in points.tolist()]
    return make_sample([tuple(p) for p in points.tolist()], [[1]] * count, boxes, [[1]] * count)


def test_leaves_are_small_where_the_load_is_and_shared_out() -> None:
    sample = crowd(5_000)
    plan = make_plan("quadtree", sample, 4, COST)
    assert plan.leaves == 64
    sizes = np.bincount(plan.cell_leaf)
    town = plan.cell_leaf[plan.grid.cell(np.array([0.3]), np.array([0.3]))[0]]
    assert sizes[town] <= sizes.max() / 16
    assert compute_worker_loads(sample, plan, COST).imbalance <= 1.5


@pytest.mark.parametrize("seed", range(8))
def test_leaves_go_to_workers_by_the_differencing_method(seed: int) -> None:
    """With 64 subscriptions to one word workloads are exact floats, so that equal ones are equal for the twin too."""
    rng = np.random.default_rng(seed)
    points, middles = rng.random((200, 2)) ** 2, rng.random((64, 2))
    boxes = [(x - 0.1, y - 0.1, x + 0.1, y + 0.1) for x, y in middles.tolist()]
    sample = make_sample([tuple(p) for p in points.tolist()], [[1]] * 200, boxes, [[1]] * 64)
    plan = make_plan("quadtree", sample, 2 + seed % 4, COST, {"columns": 16, "rows": 16, "theta": 20})
    statistics = sstd.Statistics(sample, plan.grid)
    cells = plan.cell_leaf.reshape(16, 16)
    parts = [(int(x.min()), int(y.min()), int(x.max()), int(y.max())) for y, x in map(np.nonzero, _masks(cells))]
    workloads = [Fraction(statistics.workload(part)) for part in parts]
    expected = sorted(sorted(leaves) for leaves in sstd.differencing(workloads, plan.workers))
    made = [np.flatnonzero(plan.unit_worker == worker).tolist() for worker in range(plan.workers)]
    assert sorted(made) == expected


def test_without_load_each_worker_gets_as_much_area() -> None:
    plan = make_plan("quadtree", make_sample([], [], [], []), 8, COST)
    assert plan.leaves == 64 and np.bincount(plan.unit_worker).tolist() == [8] * 8
