"""The plain kd-tree against medians that are found by sorting."""

import numpy as np
import pytest

from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.registry import make_plan
from tests.paper_samples import paper_sample
from tests.plans import make_sample

COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)


@pytest.mark.parametrize("workers", [2, 3, 8, 13])
def test_each_worker_has_the_same_number_of_objects(workers: int) -> None:
    sample = paper_sample("q1", 20_000, 4_000)
    loads = compute_worker_loads(sample, make_plan("plain_kd_tree", sample, workers, COST), COST)
    even = loads.objects.sum() / workers
    assert loads.objects.max() <= 1.15 * even and loads.objects.min() >= 0.85 * even


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
