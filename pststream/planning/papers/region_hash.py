"""Planner `hash` of `range` and `knn`: every subscription costs 1, so each goes to the worker with the fewest."""

from collections.abc import Sequence

import numpy as np

from pststream.kernels.planning.split_subscriptions import AreaIndex
from pststream.planning.load_model import CostModel
from pststream.planning.planners.by_subscription import NO_AREAS, Parts, Subscriptions, make_subscription_plan
from pststream.planning.planners.contract import Options
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import SampleCounts, WorkloadSample


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan that shares by subscription; each subscription costs the same.

    options  columns, rows: of the raster

    Source: the hashing-based method of DSkype (Skype, section 7.3.1), for `range` and `knn`. Departures: a subscription
    goes to the worker that has the fewest, which is as even as a hash at best, and its worker is recorded as under the
    other plans that share by subscription; an object goes to the workers with a live term nearby, and not to all.
    """
    return make_subscription_plan("hash", sample, workers, options)


def partition(counts: SampleCounts, present: Subscriptions, plan: PartitionPlan) -> Parts:
    """Return each subscription as a part of cost 1, the older first."""
    return Parts(np.arange(present.count), np.ones(present.count), NO_AREAS)


def cost_of_new(counts: SampleCounts, new: Subscriptions, areas: Sequence[AreaIndex]) -> np.ndarray:
    """Return 1 for each subscription."""
    return np.ones(new.count)
