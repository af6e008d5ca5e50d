"""Count the sampled objects, boxes and posting reads in any rectangle of raster cells, by summed-area tables.

A box overlaps a rectangle unless it ends before it or begins after it, on either axis. With T_c[x, y] the number of
boxes whose corner c lies in a column before x and a row before y, the boxes that overlap columns x0..x1 and rows
y0..y1 are

    T_sw[x1+1, y1+1] - T_se[x0, y1+1] - T_nw[x1+1, y0] + T_ne[x0, y0]

This holds as a box whose east side lies before x0 also has its west side before x1+1. A count takes constant time, so
planners cut nodes by these counts without another scan of the sample.
"""

from dataclasses import dataclass

import numpy as np

from pststream.base.arrays import sum_slices
from pststream.planning.live_terms import mark_live_objects
from pststream.planning.load_model import LoadRates
from pststream.planning.raster import compute_cell_ranges
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample

Cells = int | np.ndarray


def build_area_sums(values: np.ndarray) -> np.ndarray:
    """Sum `values` (int64 or float64, [rows, columns]) up to a summed-area table: the same type, [rows+1, columns+1].

    Entry [y, x] sums the rows before y and the columns before x.
    """
    table = np.zeros((values.shape[0] + 1, values.shape[1] + 1), dtype=values.dtype)
    np.cumsum(values, axis=0, out=table[1:, 1:])
    np.cumsum(table[1:, 1:], axis=1, out=table[1:, 1:])
    return table


def sum_area(table: np.ndarray, x0: Cells, y0: Cells, x1: Cells, y1: Cells) -> np.ndarray:
    """Sum the values in each rectangle, given by first and last column and row, inclusive.

    A rectangle whose last column or row is before its first is empty. A table may have several values an entry, on a
    last axis, which the result then has too.
    """
    right, upper = np.maximum(np.add(x1, 1), x0), np.maximum(np.add(y1, 1), y0)
    return np.asarray(table[upper, right] - table[y0, right] - table[upper, x0] + table[y0, x0])


@dataclass(frozen=True)
class RegionCounts:
    """Tables of which entry [y, x] sums the rows before y and the columns before x.

    corners    int64[4, rows+1, columns+1]: boxes by their south-west, south-east, north-west, north-east corner
    sums       int64[rows+1, columns+1, 3]: objects that have a live term; pairs of such an object and a box that covers
               the raster cell of the object; `reads` of the objects

    All methods take rectangles by first and last column and row, inclusive, as numbers or as arrays that broadcast; a
    rectangle whose last is before its first is empty. Counts are of the sample, not scaled.

    A subscription with two boxes counts twice in a rectangle that touches both. This is rare (only boxes across the
    antimeridian have two), and such tables cannot avoid it. `load_model.compute_worker_loads` counts it once.
    """

    corners: np.ndarray
    sums: np.ndarray

    @property
    def columns(self) -> int:
        """Columns of the raster."""
        return self.sums.shape[1] - 1

    @property
    def rows(self) -> int:
        """Rows of the raster."""
        return self.sums.shape[0] - 1

    def objects(self, x0: Cells, y0: Cells, x1: Cells, y1: Cells) -> np.ndarray:
        """Count the live objects in each rectangle: int64."""
        return sum_area(self.sums[..., 0], x0, y0, x1, y1)

    def subscriptions(self, x0: Cells, y0: Cells, x1: Cells, y1: Cells) -> np.ndarray:
        """Count the boxes that overlap each rectangle: int64."""
        return _overlapping(self.corners, x0, y0, x1, y1)

    def reads(self, x0: Cells, y0: Cells, x1: Cells, y1: Cells) -> np.ndarray:
        """Sum the `reads` of the objects in each rectangle: int64."""
        return sum_area(self.sums[..., 2], x0, y0, x1, y1)

    def objects_pairs_reads(self, x0: Cells, y0: Cells, x1: Cells, y1: Cells) -> np.ndarray:
        """Return `objects`, pairs and `reads` of a rectangle, or of n, from one look at the table: int64[3(, n)].

        A pair is a live object and a box that covers its raster cell, which no further cut in space can avoid.
        """
        return sum_area(self.sums, x0, y0, x1, y1).T

    def load(self, rates: LoadRates, x0: Cells, y0: Cells, x1: Cells, y1: Cells) -> np.ndarray:
        """Compute the load of a worker that serves each rectangle alone (Definition 1): seconds, float64."""
        objects, subscriptions = self.objects(x0, y0, x1, y1), self.subscriptions(x0, y0, x1, y1)
        return rates.load(objects, subscriptions, self.reads(x0, y0, x1, y1))


def build_region_counts(sample: WorkloadSample, grid: DispatchGrid) -> RegionCounts:
    """Build the tables of a sample over a raster; pieces without a posting term are left out."""
    has_live = mark_live_objects(sample)
    cells = grid.cell(sample.lon, sample.lat)
    objects = _count(grid, cells[has_live])
    reads = np.bincount(cells, sum_slices(sample.reads, sample.term_offsets), grid.cells).astype(np.int64)
    ranges = compute_cell_ranges(grid, sample.boxes[np.diff(sample.post_offsets) > 0]).astype(np.int64)
    corners = tabulate_corners(grid, ranges)
    covered = objects * count_covering(grid, corners)
    sums = np.stack([build_area_sums(values) for values in (objects, covered, reads.reshape(objects.shape))], axis=-1)
    return RegionCounts(corners, sums)


def tabulate_corners(grid: DispatchGrid, ranges: np.ndarray) -> np.ndarray:
    """Return the tables `RegionCounts.corners` of boxes, given as ranges of raster cells: int64[n, 4]."""
    sides = ((0, 1), (2, 1), (0, 3), (2, 3))
    return np.stack([build_area_sums(_count(grid, ranges[:, y] * grid.columns + ranges[:, x])) for x, y in sides])


def count_covering(grid: DispatchGrid, corners: np.ndarray) -> np.ndarray:
    """Count the boxes that cover each raster cell, by the tables of their corners: int64[rows, columns]."""
    x, y = np.arange(grid.columns)[None, :], np.arange(grid.rows)[:, None]
    return _overlapping(corners, x, y, x, y)


def _count(grid: DispatchGrid, cells: np.ndarray) -> np.ndarray:
    """Count the occurrences of each raster cell: int64[rows, columns]."""
    return np.bincount(cells, minlength=grid.cells).reshape(grid.rows, grid.columns)


def _overlapping(corners: np.ndarray, x0: Cells, y0: Cells, x1: Cells, y1: Cells) -> np.ndarray:
    """Count the boxes that overlap each rectangle, by the tables of their corners."""
    south_west, south_east, north_west, north_east = corners
    right, upper = np.add(x1, 1), np.add(y1, 1)
    counts = south_west[upper, right] - south_east[upper, x0] - north_west[y0, right] + north_east[y0, x0]
    return np.where((right > x0) & (upper > y0), counts, 0)
