"""Define the task and the contract of balancers, measure and share out loads, and run a balancer by its name."""

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Protocol

import numpy as np

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.planning.balancing.local_adjustment import Adjustment
from pststream.planning.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import WorkloadSample


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


# Measured loads


def measured_loads(task: BalancingTask) -> WorkerLoads:
    """Return the loads of the plan with the fixed load of each worker added, which is the measured load."""
    loads = compute_worker_loads(task.sample, task.plan, task.cost)
    return replace(loads, load=loads.load + task.fixed_load)


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
    return balancer(task)
