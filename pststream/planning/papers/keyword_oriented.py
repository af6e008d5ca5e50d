"""Keyword-oriented planner (KOP): assign subscriptions to workers by how frequent their keywords are, not by region."""

from collections.abc import Sequence

import numpy as np

from pststream.base.arrays import sum_slices
from pststream.kernels.planning.split_subscriptions import AreaIndex
from pststream.planning.load_model import CostModel
from pststream.planning.planners.by_subscription import NO_AREAS, Parts, Subscriptions, make_subscription_plan
from pststream.planning.planners.contract import Options
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import SampleCounts, WorkloadSample


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan that shares by subscription.

    options  columns, rows: of the raster

    Source: keyword-oriented partition of DkM-SKS, section 3.1. Its departures are those of `by_subscription.py`.
    """
    return make_subscription_plan("keyword_oriented", sample, workers, options)


def partition(counts: SampleCounts, present: Subscriptions, plan: PartitionPlan) -> Parts:
    """Return each subscription as a part, the costliest first, of equal ones the older (Algorithm 1)."""
    cost = cost_of_new(counts, present, ())
    order = np.argsort(-cost, kind="stable")
    part = np.empty(present.count, np.int64)
    part[order] = np.arange(present.count)
    return Parts(part, cost[order], NO_AREAS)


def cost_of_new(counts: SampleCounts, new: Subscriptions, areas: Sequence[AreaIndex]) -> np.ndarray:
    """Return the sum over the words of each subscription of the objects that have the word (Equation 1)."""
    return sum_slices(counts.frequency(new.terms), new.term_offsets).astype(np.float64)
