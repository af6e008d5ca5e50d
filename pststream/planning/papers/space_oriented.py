"""Space-oriented planner (SOP): place the subscriptions of a quarter together, by how many objects come there."""

import heapq
from collections.abc import Sequence

import numpy as np

from pststream.kernels.planning.split_subscriptions import AreaIndex
from pststream.planning.load_model import CostModel
from pststream.planning.planners.by_subscription import NO_AREAS, Parts, Subscriptions, make_subscription_plan
from pststream.planning.planners.contract import RASTER_OPTIONS, Options
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import SampleCounts, WorkloadSample

DEFAULTS = {**RASTER_OPTIONS, "subspaces": 20}


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan that shares by subscription.

    options  columns, rows: of the raster; subspaces: for each worker, theta of the paper

    Source: space-oriented partition of DkM-SKS, section 3.2. A region stands in the place of the ball around the k
    nearest objects. Departures, besides those of `by_subscription.py`: the space is that of the raster, a subscription
    is where the centre of its range of cells is, and a subspace without subscriptions does not count.
    """
    return make_subscription_plan("space_oriented", sample, workers, options, DEFAULTS)


_Subspace = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Subscriptions (int64[n], ascending) with their centres in [low, high), in half cells: float64[2] each."""


def partition(counts: SampleCounts, present: Subscriptions, plan: PartitionPlan) -> Parts:
    """Return the subscriptions of each subspace as a part, the costliest first.

    The subspace with the greatest cost P(R) x |S_r| (Equation 3), of equal ones the older, is quartered until there
    are enough. R is the rectangle around the ranges of its subscriptions. A subspace whose centres are all equal stays.
    """
    wanted = int(str(plan.options["subspaces"])) * plan.workers
    whole = np.array([2.0 * counts.columns, 2.0 * counts.rows])
    every, centres = (np.arange(present.count), np.zeros(2), whole), present.centres
    waiting = [(-_cost(counts, present, every[0]), 0, every)]
    points, made = list[tuple[float, int, _Subspace]](), 1
    while waiting and len(waiting) + len(points) < wanted:
        costliest = heapq.heappop(waiting)
        own = centres[costliest[2][0]]
        if (own == own[0]).all():
            points.append(costliest)
            continue
        for quarter in _quarters(costliest[2], own):
            heapq.heappush(waiting, (-_cost(counts, present, quarter[0]), made, quarter))
            made += 1
    parts = sorted([*waiting, *points])
    part = np.empty(present.count, np.int64)
    for index, (_, _, (members, _, _)) in enumerate(parts):
        part[members] = index
    return Parts(part, np.array([-cost for cost, _, _ in parts]), NO_AREAS)


def cost_of_new(counts: SampleCounts, new: Subscriptions, areas: Sequence[AreaIndex]) -> np.ndarray:
    """Return the number of objects in the rectangle around each subscription (Equation 2)."""
    return counts.objects_in(new.ranges).astype(np.float64)


def _cost(counts: SampleCounts, present: Subscriptions, members: np.ndarray) -> float:
    """Return the cost of a subset: the objects in the rectangle around it, for each of its subscriptions."""
    ranges = present.ranges[members]
    around = np.concatenate([ranges[:, :2].min(axis=0), ranges[:, 2:].max(axis=0)])
    return float(counts.objects_in(around[None])[0] * len(members))


def _quarters(one: _Subspace, centres: np.ndarray) -> list[_Subspace]:
    """Return the quarters of a subspace that have subscriptions, from south-west to north-east."""
    members, low, high = one
    middle = (low + high) / 2
    beyond = centres >= middle
    quarters = []
    for north in (False, True):
        for east in (False, True):
            inside = (beyond[:, 0] == east) & (beyond[:, 1] == north)
            if inside.any():
                upper = np.array([east, north])
                corners = np.where(upper, middle, low), np.where(upper, high, middle)
                quarters.append((members[inside], *corners))
    return quarters
