"""Local adjustment moves load away from the most loaded worker, whatever loads it."""

import numpy as np

from pststream.balancing.local_adjustment import adjust_locally
from pststream.cost.load_model import CostModel, worker_loads
from pststream.domain.plan import DispatchGrid, space_plan
from pststream.domain.plan_moves import Move, moved
from pststream.partitioning.registry import make_plan
from pststream.samples.posting_reads import keep_pieces
from tests.plans import make_sample
from tests.routes import check_meetings
from tests.workloads import paper_sample

COST = CostModel(5e-8, 2e-6, 2e-6, 5e-7)


def test_load_that_cannot_move_makes_room_for_itself():
    sample = paper_sample("q1", 2000, 1000)
    plan = make_plan("grid", sample, 4, COST)
    alone = worker_loads(sample, plan, COST)
    fixed_load = np.array([0.0, 0.0, 3 * alone.max, 0.0])
    found = adjust_locally(sample, plan, COST, "gr", 1.2, fixed_load=fixed_load)
    assert np.allclose(found.before.load, alone.load + fixed_load)
    assert found.moves and found.moves[0].origin == 2
    assert np.allclose(found.after.load, worker_loads(sample, found.plan, COST).load + fixed_load)
    assert found.after.load[2] < found.before.load[2]


def test_nothing_moves_where_no_subscription_is():
    sample = paper_sample("q1", 2000, 1000)
    plan = make_plan("grid", sample, 4, COST)
    empty = keep_pieces(sample, np.zeros(sample.pieces, bool))
    found = adjust_locally(empty, plan, COST, "gr", 1.2, fixed_load=np.array([0.0, 0.0, 1.0, 0.0]))
    assert found.moves == [] and found.after.load.tolist() == [0.0, 0.0, 1.0, 0.0]


ONE_CELL = space_plan("grid", DispatchGrid(0, 0, 1, 1, 1, 1), np.zeros(1, np.int64), np.zeros(1, np.int64), 2)
COUNT = 600
"""Of objects and subscriptions with each word; enough to part a cell by."""


def in_one_cell(objects: list[list[int]]):
    """Objects with these words, and COUNT subscriptions for each of two words, all in one place."""
    boxes = [(0.4, 0.4, 0.6, 0.6)] * (2 * COUNT)
    return make_sample([(0.5, 0.5)] * len(objects), objects, boxes, [[1]] * COUNT + [[2]] * COUNT)


def test_a_cell_of_two_topics_is_split_by_text():
    """No block of cells could be moved: there is but one cell. Pairs are what costs, and half of them are spared."""
    sample = in_one_cell([[1]] * COUNT + [[2]] * COUNT)
    found = adjust_locally(sample, ONE_CELL, CostModel(1e-6, 1e-9, 1e-9, 0.0), "gr", 1.2)
    assert found.reasons == ["split"]
    assert found.after.total < 0.6 * found.before.total and found.after.imbalance <= 1.2
    check_meetings(found.plan, sample)


def test_parts_of_a_cell_are_merged_where_objects_go_to_both():
    """Every object has both words, so it goes to both workers until one of them has the whole cell."""
    sample = in_one_cell([[1, 2]] * (2 * COUNT))
    parted = moved(ONE_CELL, Move(0, 1, np.array([0]), np.array([2])))
    cost = CostModel(0.0, 1e-6, 1e-9, 0.0)
    before = worker_loads(sample, parted, cost)
    found = adjust_locally(sample, parted, cost, "gr", 1.2, fixed_load=np.array([2 * before.max, 0.0]))
    assert found.reasons[0] == "merge"
    assert found.after.total < found.before.total
    check_meetings(found.plan, sample)
