"""The hybrid plan against plans by space alone and by text alone, and its options."""

import random

import numpy as np
import pytest

from pststream.base.errors import UsageError
from pststream.planning.live_terms import sort_sample
from pststream.planning.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.planning.planners.rectangle_cuts import Rectangle
from pststream.planning.planners.registry import make_plan
from pststream.planning.planners.tree_nodes import (
    Workload,
    build_plan,
    choose_partitions_of_nodes,
    make_whole_node,
    partition_node,
)
from pststream.planning.raster import fit_raster
from pststream.planning.region_counts import build_region_counts
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample
from tests.paper_samples import paper_sample
from tests.plans import make_sample

COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)
COUNT = 20_000


def workload_of(sample: WorkloadSample, columns: int = 16) -> Workload:
    grid = fit_raster(sample.lon, sample.lat, sample.boxes, columns, columns)
    return Workload(build_region_counts(sample, grid), sort_sample(sample, grid), COST.rates(sample))


def text_loads(sample: WorkloadSample, workers: int) -> WorkerLoads:
    """Loads of a plan by text alone."""
    work = workload_of(sample, 1)
    nodes = partition_node(make_whole_node(Rectangle(0, 0, 0, 0), True, work), workers, work)
    grid, ids = work.sample.grid, work.sample.term_ids
    return compute_worker_loads(sample, build_plan(nodes, np.arange(len(nodes)), grid, ids, workers, {}), COST)


@pytest.mark.parametrize(
    ("kind", "rare", "at_most"),
    [("q1", 1.0, 1.02), ("q2", 1.0, 1.02), ("q2", 0.0, 0.85), ("q3", 1.0, 1.02), ("q3", 0.0, 0.9)],
)
def test_is_never_much_worse_than_space_or_text_alone(kind: str, rare: float, at_most: float) -> None:
    sample = paper_sample(kind, COUNT, COUNT, rare=rare)
    loads = compute_worker_loads(sample, make_plan("hybrid", sample, 8, COST), COST)
    by_space = [compute_worker_loads(sample, make_plan(name, sample, 8, COST), COST) for name in ("kd_tree", "grid")]
    assert loads.max <= at_most * min(other.max for other in by_space)
    assert loads.total <= 1.02 * min(other.total for other in by_space)
    assert loads.max <= 1.02 * text_loads(sample, 8).max


@pytest.mark.parametrize("workers", [2, 8, 16, 32])
@pytest.mark.parametrize("kind", ["q1", "q2", "q3"])
def test_loads_are_within_sigma(kind: str, workers: int) -> None:
    """Up to the rows that nodes of one worker share, which the assignment counts twice, and the price of balance."""
    sample = paper_sample(kind, COUNT, COUNT)
    plan = make_plan("hybrid", sample, workers, COST)
    assert plan.options["sigma"] == 1.1
    assert compute_worker_loads(sample, plan, COST).imbalance <= 1.15


def test_the_loaded_half_gets_more_partitions() -> None:
    points = [(x / 20, y / 20) for x in range(20) for y in range(20) for _ in range(9 if x < 10 else 1)]
    boxes = [(x, y, x + 0.01, y + 0.01) for x, y in points]
    sample = make_sample(points, [[1]] * len(points), boxes, [[1]] * len(points))
    work = workload_of(sample)
    halves = [
        make_whole_node(Rectangle(0, 0, 7, 15), False, work),
        make_whole_node(Rectangle(8, 0, 15, 15), False, work),
    ]
    numbers = choose_partitions_of_nodes(halves, 10, work)
    assert sum(numbers) == 10
    assert numbers[0] > numbers[1] >= 1


@pytest.mark.parametrize("delta", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("workers", [1, 8, 300])
def test_any_options_make_a_plan(delta: float, workers: int) -> None:
    sample = paper_sample("q3", 4000, 4000, rare=0.0)
    options = {"columns": 32, "rows": 32, "delta": delta, "sigma": 1, "theta": 16}
    plan = make_plan("hybrid", sample, workers, COST, options)
    assert plan.options == options | {"objective": "max"}
    assert plan.units <= max(16, workers)
    assert plan.workers == workers


@pytest.mark.parametrize("kind", ["q1", "q3"])
def test_algorithm_1_as_written_is_within_sigma_and_not_above_a_kd_tree(kind: str) -> None:
    """Up to the rows that nodes of one worker share, which the assignment counts twice."""
    sample = paper_sample(kind, COUNT, COUNT)
    paper = make_plan("hybrid", sample, 8, COST, {"objective": "sum", "sigma": 1.2})
    plain = make_plan("plain_kd_tree", sample, 8, COST)
    loads = compute_worker_loads(sample, paper, COST)
    assert loads.imbalance <= 1.25
    assert loads.total <= 1.02 * compute_worker_loads(sample, plain, COST).total


def test_the_least_sum_divides_a_node_by_text_only_if_that_is_less_in_all() -> None:
    """Two topics in one cell: by text, objects go to one worker each; by space the cell cannot be cut."""
    points = [(0.5, 0.5)] * 2_000
    boxes = [(0.4, 0.4, 0.6, 0.6)] * 2_000
    terms = [[row % 2] for row in range(2_000)]
    sample = make_sample(points, terms, boxes, terms)
    plan = make_plan("hybrid", sample, 2, COST, {"objective": "sum", "columns": 4, "rows": 4})
    assert sorted(plan.term_unit.tolist()) == [0, 1]
    with pytest.raises(UsageError, match="max, sum"):
        make_plan("hybrid", sample, 2, COST, {"objective": "least"})


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
        workload = Workload(counts, sort_sample(sample, grid), COST.rates(sample), least_sum=True)
        nodes = partition_node(make_whole_node(whole, False, workload), 4, workload)
        assert [(node.rectangle.x0, node.by_text) for node in nodes] == [(x, False) for x in range(4)]
