"""The grid planner: blocks of one size, walked along a Hilbert curve and dealt to the workers in contiguous runs."""

import numpy as np

from pststream.cost.load_model import CostModel
from pststream.cost.region_counts import region_counts
from pststream.domain.plan import DispatchGrid, PartitionPlan, space_plan
from pststream.domain.planner_sample import WorkloadSample
from pststream.kernels.planning.cut_curve import curve_entries
from pststream.partitioning.contiguous_runs import deal_runs
from pststream.partitioning.contract import Options, whole_numbers
from pststream.samples.raster_ranges import cell_ranges
from pststream.space.hilbert import hilbert_walk
from pststream.space.plan_raster import COLUMNS, ROWS, bounds_of

DEFAULTS = {"columns": COLUMNS, "rows": ROWS, "blocks": 64}


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """A leaf and a unit for each block; leaf i is the i-th block on the curve, and a worker's leaves are a run of it.

    The runs are cut where the load of the most loaded worker is least. Where the sample shows no load at all, the
    blocks are dealt evenly; with more workers than blocks, some workers get none.

    options  columns, rows: of the raster; blocks: on each side (on a raster with fewer cells, each cell is a block)

    Source: grid partitioning of PS2Stream, section VI-B, with 2^6 x 2^6 blocks. The paper does not say how blocks come
    to workers; the curve keeps a worker's blocks together, so that few subscriptions are stored twice.
    """
    chosen = whole_numbers("grid", options, DEFAULTS)
    grid = bounds_of(sample.lon, sample.lat, sample.boxes, chosen["columns"], chosen["rows"])
    wide, high = min(chosen["blocks"], grid.columns), min(chosen["blocks"], grid.rows)
    block_x = np.arange(grid.columns) * wide // grid.columns
    block_y = np.arange(grid.rows) * high // grid.rows
    walk_x, walk_y = hilbert_walk(wide, high)
    place = np.empty((high, wide), dtype=np.int32)
    place[walk_y, walk_x] = np.arange(wide * high)
    counts = region_counts(sample, grid)
    first_x, last_x = _ends(block_x, walk_x)
    first_y, last_y = _ends(block_y, walk_y)
    blocks = (first_x, first_y, last_x, last_y)
    ranges = _block_ranges(sample, grid, block_x, block_y)
    entry, previous = curve_entries(ranges, place, walk_x.astype(np.int32), walk_y.astype(np.int32))
    leaf_worker = deal_runs(counts, blocks, cost.rates(sample), entry, previous, workers)
    return space_plan("grid", grid, place[np.ix_(block_y, block_x)].ravel(), leaf_worker, workers, dict(chosen))


def _ends(block_of: np.ndarray, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and last column (or row) of each of `blocks`."""
    return np.searchsorted(block_of, blocks), np.searchsorted(block_of, blocks, side="right") - 1


def _block_ranges(sample: WorkloadSample, grid: DispatchGrid, block_x: np.ndarray, block_y: np.ndarray) -> np.ndarray:
    cells = cell_ranges(grid, sample.boxes[np.diff(sample.post_offsets) > 0])
    ranges = np.empty_like(cells)
    ranges[:, 0::2] = block_x[cells[:, 0::2]]
    ranges[:, 1::2] = block_y[cells[:, 1::2]]
    return ranges
