"""Mapping the partitions of a new plan to workers, against all permutations and a slow count."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.scenarios.plans.mapping import MAPPINGS
from benchmarks.support.paper_workloads import draw_synthetic_sample
from pststream.planning.balancing.contract import count_shared_pieces, map_workers, relabel_workers
from pststream.planning.dispatch import make_dispatch
from pststream.planning.load_model import CostModel
from pststream.planning.planners.registry import make_plan
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from tests.fuzz.cases import examples


@examples(100)
@given(st.integers(1, 5).flatmap(lambda n: arrays(np.int64, (n, n), elements=st.integers(0, 50))))
def test_hungarian_keeps_the_most(shared):
    workers = np.arange(len(shared))
    kept = {}
    for method, map_by in MAPPINGS.items():
        label = map_by(shared, 0)
        assert sorted(label.tolist()) == workers.tolist()
        kept[method] = shared[label, workers].sum()
    assert kept["hungarian"] == max(shared[list(p), workers].sum() for p in permutations(workers)) == max(kept.values())
    assert 2 * kept["greedy"] >= kept["hungarian"]


@pytest.mark.parametrize("planner", ["kd_tree", "frequency"])
def test_shared_pieces_equal_a_slow_count(planner):
    sample = draw_synthetic_sample(300, 400, 1, SubscriptionStyle("q1"))
    cost = CostModel(5e-12, 2e-6, 2e-6, 5e-7)
    before, after = make_plan("grid", sample, 3, cost), make_plan(planner, sample, 3, cost)
    stored = []
    for plan in (before, after):
        offsets, workers = make_dispatch(plan).workers_of_sample(sample)
        stored.append([set(workers[a:b].tolist()) for a, b in zip(offsets[:-1], offsets[1:])])
    slow = [[sum(i in old and j in new for old, new in zip(*stored)) for j in range(3)] for i in range(3)]
    shared = count_shared_pieces(sample, before, after)
    assert shared.tolist() == slow
    label = map_workers(shared)
    again = count_shared_pieces(sample, before, relabel_workers(after, label))
    assert np.trace(again) == shared[label, np.arange(3)].sum() >= np.trace(shared)
