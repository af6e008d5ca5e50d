"""Local adjustment moves load away from the most loaded worker, whatever causes the load."""

import numpy as np
import pytest

from pststream.planning.balancing.local_adjustment import adjust_locally
from pststream.planning.live_terms import keep_pieces
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.registry import make_plan
from pststream.plans.plan import DispatchGrid, space_plan
from pststream.plans.plan_moves import Move, apply_move
from tests.paper_samples import paper_sample
from tests.plans import make_sample
from tests.routes import check_meetings

COST = CostModel(5e-8, 2e-6, 2e-6, 5e-7)


def test_a_worker_with_fixed_load_gives_cells_away():
    sample = paper_sample("q1", 2000, 1000)
    plan = make_plan("grid", sample, 4, COST)
    alone = compute_worker_loads(sample, plan, COST)
    fixed_load = np.array([0.0, 0.0, 3 * alone.max, 0.0])
    adjustment = adjust_locally(sample, plan, COST, "gr", 1.2, fixed_load=fixed_load)
    assert np.allclose(adjustment.before.load, alone.load + fixed_load)
    assert adjustment.moves and adjustment.moves[0].origin == 2
    assert np.allclose(adjustment.after.load, compute_worker_loads(sample, adjustment.plan, COST).load + fixed_load)
    assert adjustment.after.load[2] < adjustment.before.load[2]


@pytest.mark.parametrize("method", ["gr", "dp", "si", "ra"])
def test_workers_are_levelled_if_all_load_is_in_the_pairs(method: str):
    """A block takes its pairs with the rest of the worker along: many more than the pairs of its own rows."""
    sample, cost = paper_sample("q2", 2000, 2000), CostModel(1e-6, 0.0, 0.0, 0.0)
    adjustment = adjust_locally(sample, make_plan("uniform", sample, 4, cost), cost, method, 1.2)
    assert adjustment.before.imbalance > 5.0 and adjustment.after.imbalance <= 1.2
    assert method in adjustment.reasons


def test_nothing_moves_without_subscriptions():
    sample = paper_sample("q1", 2000, 1000)
    plan = make_plan("grid", sample, 4, COST)
    empty = keep_pieces(sample, np.zeros(sample.pieces, bool))
    adjustment = adjust_locally(empty, plan, COST, "gr", 1.2, fixed_load=np.array([0.0, 0.0, 1.0, 0.0]))
    assert adjustment.moves == [] and adjustment.after.load.tolist() == [0.0, 0.0, 1.0, 0.0]


ONE_CELL = space_plan("grid", DispatchGrid(0, 0, 1, 1, 1, 1), np.zeros(1, np.int64), np.zeros(1, np.int64), 2)
COUNT = 600
"""Of objects and subscriptions with each word; enough to part a cell by."""


def in_one_cell(objects: list[list[int]]):
    """Objects with these words, and COUNT subscriptions for each of two words, all in one raster cell."""
    boxes = [(0.4, 0.4, 0.6, 0.6)] * (2 * COUNT)
    return make_sample([(0.5, 0.5)] * len(objects), objects, boxes, [[1]] * COUNT + [[2]] * COUNT)


def test_a_cell_of_two_topics_is_split_by_text():
    """No block of cells can be moved, as there is one cell. The load is in the pairs, and half of them are saved."""
    sample = in_one_cell([[1]] * COUNT + [[2]] * COUNT)
    adjustment = adjust_locally(sample, ONE_CELL, CostModel(1e-6, 1e-9, 1e-9, 0.0), "gr", 1.2)
    assert adjustment.reasons == ["split"]
    assert adjustment.after.total < 0.6 * adjustment.before.total and adjustment.after.imbalance <= 1.2
    check_meetings(adjustment.plan, sample)


def test_a_block_of_several_cells_is_split_by_text():
    """One worker has a region of many cells, in each of which two topics meet."""
    rng = np.random.default_rng(8)
    points = [tuple(point) for point in rng.random((4 * COUNT, 2)).tolist()]
    boxes = [(x, y, x + 0.01, y + 0.01) for x, y in points[: 2 * COUNT]]
    sample = make_sample(
        points, [[row % 2] for row in range(4 * COUNT)], boxes, [[row % 2] for row in range(2 * COUNT)]
    )
    plan = space_plan("grid", DispatchGrid(0, 0, 1, 1, 8, 8), np.zeros(64, np.int64), np.zeros(1, np.int64), 2)
    adjustment = adjust_locally(sample, plan, CostModel(1e-6, 1e-9, 1e-9, 0.0), "gr", 1.2)
    assert adjustment.reasons[0] == "split" and len(adjustment.moves[0].cells) > 1
    assert adjustment.saved[0] > 0.05 * adjustment.before.total
    assert np.isclose(sum(adjustment.saved), adjustment.before.total - adjustment.after.total)
    check_meetings(adjustment.plan, sample)


def test_a_cell_by_text_is_merged_if_objects_go_to_both_workers():
    """Every object has both words, so it goes to both workers until one of them has the whole cell."""
    sample = in_one_cell([[1, 2]] * (2 * COUNT))
    split = apply_move(ONE_CELL, Move(0, 1, np.array([0]), np.array([2])))
    cost = CostModel(0.0, 1e-6, 1e-9, 0.0)
    before = compute_worker_loads(sample, split, cost)
    adjustment = adjust_locally(sample, split, cost, "gr", 1.2, fixed_load=np.array([2 * before.max, 0.0]))
    assert adjustment.reasons[0] == "merge"
    assert adjustment.after.total < adjustment.before.total
    check_meetings(adjustment.plan, sample)
