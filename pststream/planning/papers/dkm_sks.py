"""DkM-SKS planner: split subscriptions by space and cost into small subsets, and share each subset out."""

from collections.abc import Sequence

import numpy as np

from pststream.kernels.planning.split_subscriptions import AreaIndex, cost_in_areas, split_subscriptions
from pststream.planning.load_model import CostModel
from pststream.planning.planners.by_subscription import (
    Parts,
    Subscriptions,
    as_arrays,
    make_subscription_plan,
    nearest_areas,
)
from pststream.planning.planners.contract import RASTER_OPTIONS, Options
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import SampleCounts, WorkloadSample

DEFAULTS = {**RASTER_OPTIONS, "subset": 5, "tested": 20}


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan that shares by subscription.

    options  columns, rows: of the raster; subset: subscriptions for each subset, on average; tested: greatest subset of
             which both splits are tested, gamma2 of the paper

    Source: DkM-SKS, section 4. The paper's gamma1 = 100,000 makes 2,000,000 subsets of 10,000,000 subscriptions for 20
    workers, which is 5 a subset; as a number of subsets it would not fit fewer subscriptions. A region stands in the
    place of the ball around the k nearest objects. Departures, besides those of `by_subscription.py`: the space is that
    of the raster, a subset around one centre is only split by cost, and one of a single subscription is not split.
    The paper does not say in which space the parts of a split by cost are; here it is that of the subset.
    """
    return make_subscription_plan("dkm_sks", sample, workers, options, DEFAULTS)


def partition(counts: SampleCounts, present: Subscriptions, plan: PartitionPlan) -> Parts:
    """Return each subscription as a part: by subsets, the costliest first, and by cost inside a subset (Algorithm 3).

    The areas are the rectangles R around the subsets.
    """
    wanted = -(-present.count // int(str(plan.options["subset"])))
    words = counts.number_terms(present.terms)
    subsets = split_subscriptions(
        present.ranges, present.term_offsets, words, as_arrays(counts), wanted, int(str(plan.options["tested"]))
    )
    part = np.empty(present.count, np.int64)
    part[subsets.order] = np.arange(present.count)
    return Parts(part, subsets.costs, subsets.areas)


def cost_of_new(counts: SampleCounts, new: Subscriptions, areas: Sequence[AreaIndex]) -> np.ndarray:
    """Return the sum of P(R, word) over the words of each subscription, R the area that overlaps it most (Equation 7).

    If none overlaps it, R is the nearest; without any area, its own range.
    """
    words, nearest = counts.number_terms(new.terms), nearest_areas(new.ranges, areas)
    return np.asarray(cost_in_areas(nearest, new.term_offsets, words, as_arrays(counts)))
