"""Local adjustment moves load away from the most loaded worker, whatever loads it."""

import numpy as np

from pststream.balancing.local import adjust_locally
from pststream.partitioning.registry import make_plan
from pststream.workload.cost import CostModel, worker_loads
from pststream.workload.reads import with_pieces
from tests.workloads import paper_sample

COST = CostModel(5e-8, 2e-6, 2e-6, 5e-7)


def test_load_that_cannot_move_makes_room_for_itself():
    sample = paper_sample("q1", 2000, 1000)
    plan = make_plan("grid", sample, 4, COST)
    alone = worker_loads(sample, plan, COST)
    besides = np.array([0.0, 0.0, 3 * alone.max, 0.0])
    found = adjust_locally(sample, plan, COST, "gr", 1.2, besides=besides)
    assert np.allclose(found.before.load, alone.load + besides)
    assert found.moves and found.moves[0].origin == 2
    assert np.allclose(found.after.load, worker_loads(sample, found.plan, COST).load + besides)
    assert found.after.load[2] < found.before.load[2]


def test_nothing_moves_where_no_subscription_is():
    sample = paper_sample("q1", 2000, 1000)
    plan = make_plan("grid", sample, 4, COST)
    empty = with_pieces(sample, np.zeros(sample.pieces, bool))
    found = adjust_locally(empty, plan, COST, "gr", 1.2, besides=np.array([0.0, 0.0, 1.0, 0.0]))
    assert found.moves == [] and found.after.load.tolist() == [0.0, 0.0, 1.0, 0.0]
