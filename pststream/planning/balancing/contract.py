"""Define the task and the contract of balancers, measure and share out loads, and run a balancer by its name."""

from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Protocol

import numpy as np
from scipy.optimize import linear_sum_assignment

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.planning.dispatch import make_dispatch
from pststream.planning.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_moves import Move
from pststream.plans.planner_sample import WorkloadSample

LOWER = 1.0 - 1e-9
"""Factor below which a load must fall to count as an improvement."""


@dataclass(frozen=True)
class Adjustment:
    """The moves of an adjustment, and the plan after them.

    moves                in the order in which they are made
    reasons              parallel to moves: "split", "merge" (phase I) or the method of selection (phase II)
    before, after        loads of the sample under the plan before the moves, and under `plan`
    saved                parallel to moves: seconds that each takes off the sum of all loads, negative if it adds to it;
                         empty for adjustments that are not local
    least_bytes          of a new partitioning: bytes to move all subscriptions to their workers, by the best assignment
    """

    plan: PartitionPlan
    moves: list[Move]
    reasons: list[str]
    before: WorkerLoads
    after: WorkerLoads
    saved: list[float] = field(default_factory=list)
    least_bytes: int | None = None


@dataclass(frozen=True)
class BalancingTask:
    """A plan whose workers are out of balance.

    method            one of `names.BALANCERS`
    cost              constants for the period of the sample, scaled to measured seconds
    target            greatest load over the least that counts as balanced, at least 1
    fixed_load        float64[workers], seconds: what the measured load is above the modelled load of `plan`
    retiring_load     float64[workers], seconds: the part of the fixed load that belongs to a plan that is retiring
    transfer_seconds  to write one subscription into the index of another worker
    seed              of the method `ra`
    """

    method: str
    sample: WorkloadSample
    plan: PartitionPlan
    cost: CostModel
    target: float
    fixed_load: np.ndarray
    retiring_load: np.ndarray
    transfer_seconds: float
    seed: int = 0


class Balancer(Protocol):
    """A pure function from a task to the moves that balance the workers, none if no move helps.

    The adjusted plan serves each (raster cell, term) by one worker, as every plan does, so no move changes a match.
    """

    def __call__(self, task: BalancingTask) -> Adjustment:
        """Return the moves, and the plan and its loads after them."""
        ...


def measured_loads(sample: WorkloadSample, plan: PartitionPlan, cost: CostModel, fixed_load: np.ndarray) -> WorkerLoads:
    """Return the loads of a plan with the fixed load of each worker added, which is the measured load."""
    loads = compute_worker_loads(sample, plan, cost)
    return replace(loads, load=loads.load + fixed_load)


def movable_load(task: BalancingTask, loads: WorkerLoads) -> np.ndarray:
    """Return the seconds of each worker under the plan, without those under a retiring plan: float64[workers]."""
    return np.asarray(np.maximum(loads.load - task.retiring_load, 0.0))


def share_out(seconds: np.ndarray, owner: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Divide the seconds of each worker among what it owns, in proportion to weights: float64[n].

    seconds  float64[workers]
    owner    int[n]           worker of each cell or unit
    weights  float64[n]       at least 0; if all of a worker are 0, each gets as much
    """
    total = np.bincount(owner, weights, len(seconds))
    weights = np.where(total[owner] > 0.0, weights, 1.0)
    total = np.bincount(owner, weights, len(seconds))
    return np.asarray(seconds[owner] * weights / total[owner])


def loads_after(task: BalancingTask, plan: PartitionPlan, seconds: np.ndarray) -> WorkerLoads:
    """Return the loads under an adjusted plan: counts by the model, seconds as predicted (float64[workers])."""
    return replace(compute_worker_loads(task.sample, plan, task.cost), load=seconds + task.retiring_load)


def adjust(task: BalancingTask) -> Adjustment:
    """Return the adjustment by the task's method; raises UsageError for an unknown one."""
    if task.method not in names.BALANCERS:
        raise UsageError(f"method {task.method!r} is unknown", "one of: " + ", ".join(names.BALANCERS))
    balancer: Balancer = import_module(names.BALANCERS[task.method]).adjust
    adjustment = balancer(task)
    return replace(adjustment, plan=replace(adjustment.plan, index_workers=task.plan.index_workers))


def count_shared_pieces(sample: WorkloadSample, before: PartitionPlan, after: PartitionPlan) -> np.ndarray:
    """Count the sampled pieces that worker i stores before and worker j after: int64[workers, workers] at [i, j]."""
    old, new = (make_dispatch(plan).workers_of_sample(sample) for plan in (before, after))
    olds, news = np.diff(old[0]), np.diff(new[0])
    # List every pair of an old and a new worker of a piece: repeat the old ones, tile the new ones.
    pairs = olds * news
    piece = np.repeat(np.arange(len(pairs)), pairs)
    within = np.arange(len(piece)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    first = old[1][old[0][piece] + within // news[piece]].astype(np.int64)
    second = new[1][new[0][piece] + within % news[piece]]
    counts = np.bincount(first * after.workers + second, minlength=before.workers * after.workers)
    return counts.reshape(before.workers, after.workers)


def map_workers(shared: np.ndarray) -> np.ndarray:
    """Map workers so that as many pieces as possible stay in place at a repartitioning (Hungarian method).

    Source: PS2Stream section V-B does not say how to map; SSTD maps new partitions to workers by the Hungarian method.

    shared: int64[workers, workers], the pieces that stay if worker j of the new plan becomes worker i
    Returns the worker that each worker of the new plan becomes: int64[workers], a permutation.
    """
    old, new = linear_sum_assignment(shared, maximize=True)
    label = np.empty(len(new), np.int64)
    label[new] = old
    return label


def relabel_workers(plan: PartitionPlan, label: np.ndarray) -> PartitionPlan:
    """Return the plan with worker j numbered `label[j]`."""
    return replace(plan, unit_worker=label[plan.unit_worker].astype(np.int32))
