"""Leaves of the R-tree, and where a walk through leaves enters boxes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.kernels.planning.cut_curve import find_block_entries, find_leaf_entries
from pststream.kernels.routing.pyramid import build_pyramid
from pststream.planning.load_model import CostModel
from pststream.planning.planners.registry import make_plan
from pststream.planning.raster import hilbert_walk
from pststream.plans.planner_sample import WorkloadSample
from tests.plans import make_sample, samples

COST = CostModel(5e-9, 4e-6, 1e-5, 5e-6)


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=40, deadline=None)
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
