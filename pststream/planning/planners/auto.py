"""Planner `auto`: run every planner's plan on a half of the sample that it has not seen, and take the best plan."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pststream.base import names
from pststream.base.arrays import hash_integers
from pststream.planning.dispatch import make_dispatch
from pststream.planning.live_terms import expect_unsampled_reads, keep_pieces, keep_terms
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.contract import RASTER_OPTIONS, Options, read_integer_options
from pststream.planning.planners.registry import installed_planners, make_plan, place_sample, shares_by_subscription
from pststream.plans.plan import PartitionPlan, SubscriptionPlan
from pststream.plans.planner_sample import WorkloadSample, count_sample

MOST_UNSAMPLED = 2.0
"""Subscriptions for each sampled one, from which on most of them are not in the sample."""

SALT = 31


def split_sample(sample: WorkloadSample) -> tuple[WorkloadSample, WorkloadSample]:
    """Return the sample twice, each time with about half of its objects.

    If most subscriptions are not in the sample, each half also has about half of the subscriptions; else both have all,
    as the next objects meet the same ones. The half of an object depends on its point alone, and that of a subscription
    on its key, not on the order of the rows. Each object or subscription stands for as many more as were left out.
    """
    point = hash_integers(np.ascontiguousarray(sample.lon).view(np.int64), 1)
    point ^= hash_integers(np.ascontiguousarray(sample.lat).view(np.int64), 2)
    first = _first_half(point.view(np.int64))
    halves = keep_objects(sample, first), keep_objects(sample, ~first)
    if sample.subscription_scale < MOST_UNSAMPLED:
        return halves
    mine = _first_half(sample.piece_key, SALT)
    return keep_subscriptions(halves[0], mine), keep_subscriptions(halves[1], ~mine)


def _first_half(values: np.ndarray, salt: int = 0) -> np.ndarray:
    """Return whether each value (int64[n]) belongs to the first half: bool[n]."""
    return (hash_integers(values, salt) >> np.uint64(63)).astype(bool)


def keep_objects(sample: WorkloadSample, kept: np.ndarray) -> WorkloadSample:
    """Return a sample with the same subscriptions and only the objects that `kept` (bool[objects]) marks."""
    lengths = np.diff(sample.term_offsets)
    terms = np.repeat(kept, lengths)
    return replace(
        sample,
        lon=sample.lon[kept],
        lat=sample.lat[kept],
        term_offsets=np.append(0, np.cumsum(lengths[kept])),
        terms=sample.terms[terms],
        postings=sample.postings[terms],
        reads=sample.reads[terms],
        object_scale=sample.object_scale * len(kept) / max(int(kept.sum()), 1),
    )


def keep_subscriptions(sample: WorkloadSample, kept: np.ndarray) -> WorkloadSample:
    """Return a sample with the same objects and only the pieces that `kept` (bool[pieces]) marks, all or none of a
    subscription; each stands for more subscriptions.
    """
    part = keep_pieces(sample, kept)
    left_out = sample.subscriptions / max(part.subscriptions, 1)
    return replace(part, subscription_scale=sample.subscription_scale * left_out)


class RunCounts(NamedTuple):
    """Work of each worker, not scaled: float64[workers] each.

    objects        objects that are sent to it
    subscriptions  subscriptions that it stores
    reads          `reads` of the sample for the pieces that it stores
    """

    objects: np.ndarray
    subscriptions: np.ndarray
    reads: np.ndarray

    def loads(self, sample: WorkloadSample, cost: CostModel) -> np.ndarray:
        """Return the seconds of each worker for the period of the sample: float64[workers]."""
        return cost.rates(sample).load(*self)


def run_sample(sample: WorkloadSample, plan: PartitionPlan) -> RunCounts:
    """Send the pieces and objects of a sample to the workers as a batch does, and count the work of each worker.

    A worker stores the pieces that touch its part of the space and of the terms, and its objects read the postings of
    these alone. The load model counts the postings of all workers in the index cells of an object instead, though the
    more compact the regions are, the fewer of these a worker stores. An object is sent to a worker where it reads a
    posting; the postings that the sample lacks send it there with a probability (Poisson).

    Not for plans that share by subscription: there the load model counts the postings of each worker.
    """
    dispatch = make_dispatch(plan)
    offsets, stored_at = dispatch.workers_of_sample(sample)
    piece = np.repeat(np.arange(sample.pieces), np.diff(offsets))
    unit, _ = dispatch.units_of_objects(sample.lon, sample.lat, sample.term_offsets, sample.terms)
    served_by, unsampled = plan.unit_worker[unit], expect_unsampled_reads(sample)
    counts = np.zeros((len(RunCounts._fields), plan.workers))
    for worker in range(plan.workers):
        mine = served_by == worker
        stored = np.zeros(sample.pieces, bool)
        stored[piece[stored_at == worker]] = True
        part = keep_pieces(keep_terms(sample, mine), stored)
        read = _sum_by_object(part.postings, part.term_offsets)
        shares = np.where(read > 0, 1.0, -np.expm1(-_sum_by_object(unsampled[mine], part.term_offsets)))
        counts[:, worker] = np.sort(shares).sum(), part.subscriptions, part.reads.sum()
    return RunCounts(*counts)


def _sum_by_object(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the sum of the values of each object's terms: float64[objects]."""
    objects = len(offsets) - 1
    return np.bincount(np.repeat(np.arange(objects), np.diff(offsets)), values, objects)


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return the plan of the planner whose most loaded worker is least loaded, by the calibrated model.

    Each planner plans for one half of the sample and is judged by a run of the other half, and the other way round; its
    load is the mean of the two. The best one then plans for the whole sample. On the objects and subscriptions that it
    was made from, a plan of many small decisions looks better than it is for those that it has not seen. The slowest
    worker decides how long a batch takes, so its load counts and not the total. Among equals, and all are equal without
    a sample, `names.FIRST_PLANNER`, then the planner that is listed first. Planners of packages that are not installed
    are left out.

    options  columns, rows: of the raster of every plan; without them, each planner has its own

    The options of the plan are those of the chosen one, and "choice": {"planner": its name, "greatest_loads": {planner:
    seconds of its most loaded worker}}.

    Source: none; the papers compare planners on workloads that are known in advance.
    """
    return _choose(_others(), sample, workers, cost, options)


def plan_by_space_or_terms(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan as `plan` does, but of no planner that shares by subscription: `balance` makes no such plan."""
    planners = [name for name in _others() if not shares_by_subscription(name)]
    return _choose(planners, sample, workers, cost, options)


def _others() -> list[str]:
    return [name for name in installed_planners() if name != names.AUTO]


def _choose(
    planners: Iterable[str], sample: WorkloadSample, workers: int, cost: CostModel, options: Options
) -> PartitionPlan:
    """Return the plan of the best of some planners, with the choice among its options."""
    read_integer_options(names.AUTO, options, RASTER_OPTIONS)
    one, other = split_sample(sample)
    loads = {}
    for name in planners:
        halves = ((one, other), (other, one))
        judged = [_judge(make_plan(name, seen, workers, cost, options), seen, unseen, cost) for seen, unseen in halves]
        loads[name] = sum(judged) / 2
    best = min(loads, key=lambda name: (loads[name], name != names.FIRST_PLANNER))
    made = make_plan(best, sample, workers, cost, options)
    choice = {"planner": best, "greatest_loads": loads}
    return replace(made, planner=names.AUTO, options={**made.options, "choice": choice})


def _judge(plan: PartitionPlan, seen: WorkloadSample, unseen: WorkloadSample, cost: CostModel) -> float:
    """Return the greatest load of a worker for the half of a sample from which the plan was not made."""
    if isinstance(plan, SubscriptionPlan):
        return compute_worker_loads(place_sample(unseen, plan, count_sample(seen, plan.grid)), plan, cost).max
    return float(run_sample(unseen, plan).loads(unseen, cost).max())
