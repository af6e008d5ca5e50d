"""Leaves in the order of a walk, dealt to the workers in contiguous runs."""

import numpy as np

from pststream.cost.load_model import LoadRates
from pststream.cost.region_counts import RegionCounts
from pststream.kernels.planning.cut_curve import Walk, cut_walk


def deal_runs(
    counts: RegionCounts,
    leaves: tuple[np.ndarray, ...],
    rates: LoadRates,
    entry: np.ndarray,
    previous: np.ndarray,
    workers: int,
) -> np.ndarray:
    """The worker of each leaf: int64[leaves], ascending, so that the most loaded worker is least loaded.

    Where the sample shows no load at all, the leaves are dealt evenly.

    leaves           int64[leaves] each: first column, first row, last column, last row, in the order of the walk
    entry, previous  where the walk enters each box, see `kernels.curve`
    """
    objects, reads = counts.objects(*leaves).astype(np.float64), counts.reads(*leaves)
    if float(counts.load(rates, 0, 0, counts.columns - 1, counts.rows - 1)) <= 0.0:
        objects, rates = np.ones_like(objects), LoadRates(pair=0.0, object=1.0, subscription=0.0)
    places = len(objects)
    keys = np.sort(entry.astype(np.int64) * (places + 1) + previous + 1)
    walk = Walk(
        objects=objects,
        read_seconds=rates.posting * reads,
        touching=counts.subscriptions(*leaves),
        entry_start=np.searchsorted(keys, np.arange(places + 1) * (places + 1)),
        entry_previous=(keys % (places + 1) - 1).astype(np.int32),
        pair=rates.pair,
        object=rates.object,
        subscription=rates.subscription,
    )
    return np.repeat(np.arange(workers), np.diff(cut_walk(walk, workers)))
