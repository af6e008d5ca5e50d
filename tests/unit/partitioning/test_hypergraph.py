"""The hypergraph planner where its limits cut off terms and nets."""

import numpy as np
import pytest

from pststream.cost.load_model import CostModel, compute_worker_loads
from pststream.partitioning import hypergraph
from pststream.partitioning.registry import make_plan
from tests.plans import TERMS, identical_plans, make_sample


def test_more_terms_and_nets_than_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan does not depend on the order of the sample, even if terms and nets are cut off."""
    monkeypatch.setattr(hypergraph, "MAX_VERTICES", 6)
    monkeypatch.setattr(hypergraph, "MAX_PINS", 30)
    rng = np.random.default_rng(1)
    words = [rng.choice(TERMS, 4, replace=False).tolist() for _ in range(200)]
    boxes = [(x, y, x + 1.0, y + 1.0) for x, y in rng.random((200, 2)).tolist()]
    points = [(x, y) for x, y in rng.random((200, 2)).tolist()]
    cost = CostModel(5e-9, 4e-6, 1e-5, 5e-6)
    sample = make_sample(points, words, boxes, words)
    backwards = make_sample(points[::-1], words[::-1], boxes[::-1], words[::-1])
    plan = make_plan("hypergraph", sample, 3, cost)
    assert identical_plans(plan, make_plan("hypergraph", backwards, 3, cost))
    assert compute_worker_loads(sample, plan, cost).imbalance < 2
