"""The load model is scaled so that each worker has its measured load."""

import numpy as np

from pststream.pipeline.replan.decide_adjustment import scale_to_measured
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.registry import make_plan
from tests.paper_samples import paper_sample

COST = CostModel(2e-12, 2e-6, 2e-6, 5e-7, 2e-8)


def test_the_model_is_scaled_to_the_seconds() -> None:
    sample = paper_sample("q1", 2000, 1000)
    plan = make_plan("grid", sample, 4, COST)
    seconds, older = np.array([3.0, 1.0, 1.0, 2.0]), np.array([0.0, 1e-3, 0.0, 0.0])
    cost, rest = scale_to_measured(sample, plan, COST, older, seconds)
    modelled = compute_worker_loads(sample, plan, cost).load
    assert np.allclose(modelled + rest, seconds)
    before = compute_worker_loads(sample, plan, COST).load
    assert np.allclose(modelled, before * 7.0 / (before.sum() + 1e-3))
    assert cost.object / COST.object == cost.posting / COST.posting
