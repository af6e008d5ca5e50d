"""Measured loads of the workers, and how much of each moves with its raster cells or units."""

from dataclasses import replace

import numpy as np

from pststream.planning.balancing.balancing_task import BalancingTask
from pststream.planning.load_model import WorkerLoads, compute_worker_loads
from pststream.plans.plan import PartitionPlan


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
