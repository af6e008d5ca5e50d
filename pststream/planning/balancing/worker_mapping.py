"""Renumber the workers of a new plan as existing workers, so that few stored subscriptions move at a repartitioning.

A repartitioning relabels its new plan by this mapping before any subscription moves. Source: PS2Stream section V-B does
not say how to map; SSTD maps new partitions to workers by the Hungarian method.
"""

from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from pststream.planning.dispatch import make_dispatch
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import WorkloadSample


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
    """Map workers so that as many pieces as possible stay in place (Hungarian method).

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
