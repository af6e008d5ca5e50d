"""The A-Grid against Tornado's section 4.1 written out, the plain kd-tree against sorting, and leaves of the R-tree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels.planning.cut_curve import find_block_entries, find_leaf_entries
from pststream.kernels.routing.pyramid import build_pyramid
from pststream.planning.cell_loads import count_cell_checks
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.papers import a_grid
from pststream.planning.planners.registry import make_plan
from pststream.planning.raster import hilbert_walk
from pststream.plans.plan import DispatchGrid, PartitionPlan
from pststream.plans.planner_sample import WorkloadSample
from tests.fuzz.cases import examples
from tests.oracles import tornado
from tests.paper_samples import paper_sample
from tests.plans import make_sample, samples

COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)


@examples(150)
@given(samples(), st.integers(1, 40), st.integers(1, 40))
def test_checks_are_those_of_equation_1(sample: WorkloadSample, columns: int, rows: int) -> None:
    grid = DispatchGrid(-10.0, 30.0, 30.0, 60.0, columns, rows)
    checks = count_cell_checks(sample, grid)
    assert checks.dtype == np.int64
    assert {(x, y): n for (y, x), n in np.ndenumerate(checks)} == tornado.cell_checks(sample, grid)


@examples(150)
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


def test_two_four_and_eight_workers_share_an_even_world() -> None:
    sample = spread(20_000, 0.01)
    for workers in (2, 4, 8):
        assert compute_worker_loads(sample, make_plan("a_grid", sample, workers, COST), COST).imbalance <= 1.1


def test_cuts_are_medians_by_turns() -> None:
    rng = np.random.default_rng(4)
    points = rng.random((4_000, 2)) ** 2
    boxes = [(0.0, 0.0, 1.0, 1.0)]
    sample = make_sample([tuple(p) for p in points.tolist()], [[1]] * len(points), boxes, [[1]])
    plan = make_plan("plain_kd_tree", sample, 4, COST)
    worker = plan.unit_worker[plan.leaf_unit[plan.cell_leaf[plan.grid.cell(sample.lon, sample.lat)]]]
    # Sort by longitude and halve; then sort each half by latitude and halve.
    expected = np.empty(len(points), np.int64)
    by_lon = np.argsort(points[:, 0])
    for half, rows in enumerate((by_lon[:2_000], by_lon[2_000:])):
        by_lat = rows[np.argsort(points[rows, 1])]
        expected[by_lat[:1_000]], expected[by_lat[1_000:]] = 2 * half, 2 * half + 1
    assert (worker == expected).mean() > 0.98, "up to the objects in the raster cells that the medians fall in"


def test_subscriptions_have_no_influence() -> None:
    few, many = paper_sample("q1", 5_000, 100), paper_sample("q1", 5_000, 5_000)
    one, other = (make_plan("plain_kd_tree", sample, 8, COST, {"columns": 1, "rows": 64}) for sample in (few, many))
    assert one.leaves == other.leaves == 8


@examples(60)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_leaves_of_one_cell_are_entered_as_blocks_are(columns: int, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    across, up = (np.sort(rng.integers(0, n, (12, 2)), axis=1) for n in (columns, rows))
    ranges = np.column_stack([across[:, 0], up[:, 0], across[:, 1], up[:, 1]]).astype(np.int32)
    x, y = hilbert_walk(columns, rows)
    place = np.empty((rows, columns), dtype=np.int32)
    place[y, x] = np.arange(len(x))
    expected = find_block_entries(ranges, place, x.astype(np.int32), y.astype(np.int32))
    entries = find_leaf_entries(ranges, build_pyramid(place.ravel(), columns, rows, len(x)))
    assert sorted(zip(*map(np.ndarray.tolist, entries))) == sorted(zip(*map(np.ndarray.tolist, expected)))


@examples(40)
@given(samples(), st.integers(1, 40))
def test_leaves_are_rectangles_of_about_the_given_number(sample: WorkloadSample, leaves: int) -> None:
    plan = make_plan("r_tree", sample, 3, COST, {"columns": 9, "rows": 7, "leaves": leaves})
    side = int(np.ceil(np.sqrt(leaves)))
    assert 1 <= plan.leaves <= side * side
    cells = plan.cell_leaf.reshape(7, 9)
    for leaf in range(plan.leaves):
        y, x = np.nonzero(cells == leaf)
        assert len(x) == (np.ptp(x) + 1) * (np.ptp(y) + 1)
    assert (np.diff(plan.unit_worker) >= 0).all()


def test_leaves_have_about_as_many_objects() -> None:
    rng = np.random.default_rng(1)
    points = [(x, y) for x, y in rng.normal(0, 1, (20_000, 2)).tolist()]
    sample = make_sample(points, [[1]] * 20_000, [(-9, -9, 9, 9)], [[1]])
    plan = make_plan("r_tree", sample, 4, COST, {"leaves": 16})
    counts = np.bincount(plan.cell_leaf[plan.grid.cell(sample.lon, sample.lat)], minlength=16)
    assert plan.leaves == 16
    assert counts.min() > 0.9 * counts.max()
