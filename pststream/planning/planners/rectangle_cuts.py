"""Cut a rectangle of raster cells in two by load, and assign an ordered list of leaves to workers in runs."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pststream.kernels.planning.cut_curve import Walk, cut_walk
from pststream.planning.load_model import LoadRates
from pststream.planning.region_counts import Cells, RegionCounts

COLUMNS_APART = 0
ROWS_APART = 1

SAME = 1.0 + 1e-9
"""Loads, and sums of loads, that differ by at most this factor count as equal, so that rounding decides nothing."""


class Rectangle(NamedTuple):
    """Raster cells from (x0, y0) to (x1, y1), inclusive."""

    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def cells(self) -> int:
        """Number of cells."""
        return (self.x1 - self.x0 + 1) * (self.y1 - self.y0 + 1)

    @property
    def extent(self) -> int:
        """Cells on the longer side."""
        return max(self.x1 - self.x0, self.y1 - self.y0) + 1

    def lines(self, axis: int) -> np.ndarray:
        """Return its columns (COLUMNS_APART) or rows (ROWS_APART): int64[n]."""
        return np.arange(self[axis], self[axis + 2] + 1)

    def cut(self, axis: int, last: Any) -> tuple["Rectangle", "Rectangle"]:
        """Return both sides of a cut behind the column or row `last`, the low side first.

        last  int, or int64[n] for n cuts; the sides then have an array in the place of one number
        """
        if axis == COLUMNS_APART:
            return self._replace(x1=last), self._replace(x0=last + 1)
        return self._replace(y1=last), self._replace(y0=last + 1)


def rectangle_around(x: np.ndarray, y: np.ndarray) -> Rectangle:
    """Return the smallest rectangle around some cells (int[n] columns and rows)."""
    return Rectangle(int(x.min()), int(y.min()), int(x.max()), int(y.max()))


@dataclass(frozen=True)
class Cut:
    """A rectangle cut in two, and the number of workers of each side.

    axis  COLUMNS_APART (`low` is west) or ROWS_APART (`low` is south)
    load  seconds, of one worker on the more loaded side
    """

    axis: int
    load: float
    low: Rectangle
    low_workers: int
    high: Rectangle
    high_workers: int


def estimate_load(
    counts: RegionCounts, rates: LoadRates, workers: int, x0: Cells, y0: Cells, x1: Cells, y1: Cells
) -> np.ndarray:
    """Estimate the load of one of `workers` that share each rectangle evenly: seconds, float64.

    Objects and their posting reads divide evenly. Subscriptions divide evenly only if their boxes are small. Let
    `share` be the share of pairs (object, box) whose box covers the raster cell of the object: no cut
    separates such a pair. Then a worker has the fraction (1 - share) / workers + share of the subscriptions. For one
    worker, this is Definition 1.
    """
    objects, pairs, reads = counts.objects_pairs_reads(x0, y0, x1, y1)
    subscriptions = counts.subscriptions(x0, y0, x1, y1)
    share = pairs / np.maximum(objects * subscriptions, 1)
    return rates.load(objects / workers, subscriptions * ((1.0 - share) / workers + share), reads / workers)


def find_best_cut(node: Rectangle, workers: int, counts: RegionCounts, rates: LoadRates) -> Cut:
    """Return the cut of a node of at least two raster cells and two workers whose more loaded side is least loaded.

    Each side gets half of the workers; of an odd number, either side may get the larger half. Among equal loads, the
    cut with the more compact sides is chosen, as short borders cross few boxes.
    """
    small = workers // 2
    cuts = [
        cut_along(axis, node, low_workers, workers - low_workers, counts, rates)
        for low_workers in sorted({small, workers - small})
        for axis in (COLUMNS_APART, ROWS_APART)
        if can_cut(axis, node)
    ]
    least = min(cut.load for cut in cuts)
    return min((cut for cut in cuts if cut.load <= least * SAME), key=lambda cut: max(cut.low.extent, cut.high.extent))


def can_cut(axis: int, node: Rectangle) -> bool:
    """Return whether the node has two columns, or two rows, to cut apart."""
    return node[axis + 2] > node[axis]


def cut_along(
    axis: int,
    node: Rectangle,
    low_workers: int,
    high_workers: int,
    counts: RegionCounts,
    rates: LoadRates,
    weights: tuple[float, float] = (1.0, 1.0),
) -> Cut:
    """Return the cut on an axis whose more loaded side is least loaded; among equals, the nearest to a cut by area.

    weights  factors of the expected load of the low and of the high side
    """
    last = node.lines(axis)[:-1]
    low, high = node.cut(axis, last)
    loads = np.maximum(
        weights[0] * estimate_load(counts, rates, low_workers, *low),
        weights[1] * estimate_load(counts, rates, high_workers, *high),
    )
    equal = np.flatnonzero(loads <= loads.min() * SAME)
    by_area = (len(loads) + 1) * low_workers / (low_workers + high_workers)
    at = int(equal[np.argmin(np.abs(equal + 1 - by_area))])
    low, high = node.cut(axis, int(last[at]))
    return Cut(axis, float(loads[at]), low, low_workers, high, high_workers)


def assign_runs(
    counts: RegionCounts,
    leaves: tuple[np.ndarray, ...],
    rates: LoadRates,
    entry: np.ndarray,
    previous: np.ndarray,
    workers: int,
) -> np.ndarray:
    """Return the worker of each leaf: int64[leaves], ascending; the cuts minimize the greatest load of a worker.

    The planners `grid` and `r_tree` pass their leaves in the order of a Hilbert curve.

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
        rates=rates.row_rates,
    )
    return np.repeat(np.arange(workers), np.diff(cut_walk(walk, workers)))
