"""Assign an ordered list of leaves to workers, one contiguous run each, so that the greatest load is least.

The planners `grid` and `r_tree` call it with their leaves in the order of a Hilbert curve.
"""

import numpy as np

from pststream.kernels.planning.cut_curve import Walk, cut_walk
from pststream.planning.load_model import LoadRates
from pststream.planning.region_counts import RegionCounts


def assign_runs(
    counts: RegionCounts,
    leaves: tuple[np.ndarray, ...],
    rates: LoadRates,
    entry: np.ndarray,
    previous: np.ndarray,
    workers: int,
) -> np.ndarray:
    """Return the worker of each leaf: int64[leaves], ascending; the cuts minimize the greatest load of a worker.

    If the sample shows no load at all, each worker gets the same number of leaves.

    leaves           int64[leaves] each: first column, first row, last column, last row, in the order of the walk
    entry, previous  where the walk enters each box, see `kernels.planning.cut_curve`
    """
    objects, reads = counts.objects(*leaves).astype(np.float64), counts.reads(*leaves)
    if float(counts.load(rates, 0, 0, counts.columns - 1, counts.rows - 1)) <= 0.0:
        objects, rates = np.ones_like(objects), LoadRates(pair=0.0, object=1.0, subscription=0.0)
    positions = len(objects)
    keys = np.sort(entry.astype(np.int64) * (positions + 1) + previous + 1)
    walk = Walk(
        objects=objects,
        read_seconds=rates.read * reads,
        touching=counts.subscriptions(*leaves),
        entry_start=np.searchsorted(keys, np.arange(positions + 1) * (positions + 1)),
        entry_previous=(keys % (positions + 1) - 1).astype(np.int32),
        pair=rates.pair,
        object=rates.object,
        subscription=rates.subscription,
    )
    return np.repeat(np.arange(workers), np.diff(cut_walk(walk, workers)))
