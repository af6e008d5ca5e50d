"""Which worker takes over which part of a new plan, so that few subscriptions move.

Source: PS2Stream section V-B leaves it open; SSTD maps new partitions to workers by the Hungarian method.
"""

from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from pststream import names
from pststream.domain.plan import PartitionPlan
from pststream.domain.planner_sample import WorkloadSample
from pststream.routing.dispatch import DispatchIndex

MAPPINGS = (*names.MAPPINGS, "first", "random")
"""Ways to map: the best there is; the largest overlaps first; as the planner numbered them; by chance."""


def count_shared_pieces(sample: WorkloadSample, before: PartitionPlan, after: PartitionPlan) -> np.ndarray:
    """Sampled pieces that a worker stores under one plan and a worker under the other: int64[workers, workers].

    Entry [i, j] is of worker i before and worker j after.
    """
    old, new = (
        DispatchIndex(plan).workers_of_pieces(sample.boxes, sample.post_offsets, sample.post_terms)
        for plan in (before, after)
    )
    olds, news = np.diff(old[0]), np.diff(new[0])
    # Every pair of an old and a new worker of a piece: the old ones repeated, the new ones tiled.
    pairs = olds * news
    piece = np.repeat(np.arange(len(pairs)), pairs)
    within = np.arange(len(piece)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    first = old[1][old[0][piece] + within // news[piece]].astype(np.int64)
    second = new[1][new[0][piece] + within % news[piece]]
    counts = np.bincount(first * after.workers + second, minlength=before.workers * after.workers)
    return counts.reshape(before.workers, after.workers)


def map_workers(shared: np.ndarray, method: str, seed: int = 0) -> np.ndarray:
    """The worker that each worker of the new plan becomes: int64[workers], a permutation.

    shared  int64[workers, workers]  what stays if new worker j becomes i
    """
    workers = len(shared)
    if method == "hungarian":
        old, new = linear_sum_assignment(shared, maximize=True)
    elif method == "greedy":
        old, new = _greedy(shared)
    else:
        new = np.arange(workers)
        old = new if method == "first" else np.random.default_rng([seed, 4]).permutation(workers)
    label = np.empty(workers, np.int64)
    label[new] = old
    return label


def _greedy(shared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    free = shared.astype(np.float64)
    pairs = []
    for _ in range(len(shared)):
        i, j = divmod(int(free.argmax()), len(shared))
        pairs.append((i, j))
        free[i, :] = free[:, j] = -1.0
    old, new = np.array(pairs).T
    return old, new


def relabel_workers(plan: PartitionPlan, label: np.ndarray) -> PartitionPlan:
    """The plan with worker j called `label[j]`."""
    return replace(plan, unit_worker=label[plan.unit_worker].astype(np.int32))
