"""What load adjustment starts from: the seconds that were measured, and the model for what a move changes."""

import numpy as np

from pststream.cost.load_model import CostModel, worker_loads
from pststream.partitioning.registry import make_plan
from pststream.pipeline.adjusting.decide import as_measured
from tests.workloads import paper_sample

COST = CostModel(2e-12, 2e-6, 2e-6, 5e-7, 2e-8)


def test_the_model_is_scaled_to_what_was_measured() -> None:
    sample = paper_sample("q1", 2000, 1000)
    plan = make_plan("grid", sample, 4, COST)
    seconds, older = np.array([3.0, 1.0, 1.0, 2.0]), np.array([0.0, 1e-3, 0.0, 0.0])
    cost, besides = as_measured(sample, plan, COST, older, seconds)
    told = worker_loads(sample, plan, cost).load
    assert np.allclose(told + besides, seconds)
    before = worker_loads(sample, plan, COST).load
    assert np.allclose(told, before * 7.0 / (before.sum() + 1e-3))
    assert cost.object / COST.object == cost.posting / COST.posting
