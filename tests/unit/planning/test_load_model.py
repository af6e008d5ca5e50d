"""Definition 1 against its slow twin."""

import json
from dataclasses import replace
from math import pi

import numpy as np
import pytest
from hypothesis import given, settings

from pststream.planning.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.plans.imbalance import MAX_IMBALANCE
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import WorkloadSample
from tests.oracles import dispatch as slow
from tests.plans import make_sample, plans, quarters, samples

COSTS = (0.25, 3.0, 5.0, 7.0, 2.0)


@settings(max_examples=150, deadline=None)
@given(samples(), plans())
def test_equals_the_slow_twin(sample: WorkloadSample, plan: PartitionPlan) -> None:
    loads = compute_worker_loads(sample, plan, CostModel(*COSTS))
    unit_objects, unit_keys, objects, keys, load = slow.loads(sample, plan, COSTS)
    assert (loads.unit_objects / sample.object_scale).tolist() == unit_objects
    assert (loads.unit_subscriptions / sample.subscription_scale).tolist() == unit_keys
    assert (loads.objects / sample.object_scale).tolist() == objects
    assert (loads.subscriptions / sample.subscription_scale).tolist() == keys
    assert loads.load == pytest.approx(load)
    assert loads.total == pytest.approx(sum(load))
    assert (loads.max, loads.min) == pytest.approx((max(load), min(load)))


def test_equals_a_calculation_by_hand() -> None:
    """Two objects and two subscriptions of three boxes; scales of 10 and 100; worker 3 stores `s0` once."""
    sample = make_sample(
        points=[(1, 1), (5, 5), (5, 5)],
        terms=[[1], [1, 2], [9]],
        boxes=[(0, 0, 5, 5), (5, 5, 6, 6), (7, 7, 7, 7)],
        posts=[[1], [1], [2]],
        keys=[0, 0, 1],
        insertions=1.0,
        deletions=4 / 200,
        object_scale=10.0,
        subscription_scale=100.0,
    )
    loads = compute_worker_loads(sample, quarters(), CostModel(*COSTS))
    assert loads.objects.tolist() == [10, 0, 0, 10]
    assert loads.subscriptions.tolist() == [100, 100, 100, 200]
    assert loads.load.tolist() == [
        0.25 * 10 * 100 + 3 * 10 + 5 * 100 + 7 * 2 + 2 * 10 * 100,
        5 * 100 + 7 * 2,
        5 * 100 + 7 * 2,
        0.25 * 10 * 200 + 3 * 10 + 5 * 200 + 7 * 4 + 2 * 10 * 200,
    ]


def test_a_match_counts_as_a_part_of_a_posting_and_by_kind() -> None:
    """A match of `range` takes less than half of the time of a posting: rounded to postings it would cost nothing."""
    cost = CostModel(0.0, 0.0, 0.0, 0.0, posting=6e-9, match=2.7e-9, match_knn=9e-8)
    reads = cost.match_reads(np.array([False, True]))
    assert reads is not None and reads.tolist() == [round(0.45 * 64), round(15 * pi / 4 * 64)]
    assert CostModel(*COSTS).match_reads(np.zeros(1, bool)) is None
    sample = make_sample([(1, 1)], [[1]], [(0, 0, 2, 2), (0, 0, 2, 2)], [[1], [1]], match_reads=reads)
    (load, *_) = compute_worker_loads(sample, quarters(), cost).load
    assert load == pytest.approx(2 * 6e-9 + 2.7e-9 + 9e-8 * pi / 4, rel=0.01)


def test_a_worker_without_load() -> None:
    sample = make_sample(points=[(1, 1)], terms=[[1]], boxes=[(1, 1, 1, 1)], posts=[[1]])
    loads = compute_worker_loads(sample, quarters(), CostModel(*COSTS))
    assert loads.imbalance == MAX_IMBALANCE
    assert json.loads(json.dumps(loads.imbalance, allow_nan=False)) == MAX_IMBALANCE
    empty = compute_worker_loads(make_sample([], [], [], []), quarters(), CostModel(*COSTS))
    assert (empty.total, empty.imbalance) == (0.0, 1.0)
    none = np.empty(0)
    tiny = WorkerLoads(np.ones(2), np.ones(2), np.ones(2), np.array([1.0, 5e-324]), none, none, none)
    assert tiny.imbalance == MAX_IMBALANCE
    assert replace(tiny, load=np.array([3.0, 2.0])).imbalance == 1.5
