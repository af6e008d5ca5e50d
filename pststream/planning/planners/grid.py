"""Grid planner: divide the raster into equal blocks, and assign each worker a run of blocks along a Hilbert curve."""

import numpy as np

from pststream.kernels.planning.cut_curve import find_block_entries
from pststream.planning.load_model import CostModel
from pststream.planning.planners.contract import RASTER_OPTIONS, Options, options_and_raster
from pststream.planning.planners.rectangle_cuts import assign_runs
from pststream.planning.raster import compute_cell_ranges, hilbert_walk
from pststream.planning.region_counts import build_region_counts
from pststream.plans.plan import PartitionPlan, space_plan
from pststream.plans.planner_sample import WorkloadSample

DEFAULTS = {**RASTER_OPTIONS, "blocks": 64}


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan with a leaf and a unit for each block; leaf i is the i-th block on the curve.

    The leaves of a worker are a run of the curve. The cuts minimize the greatest load of a worker. If the sample
    shows no load at all, each worker gets the same number of blocks; with more workers than blocks, some get none.

    options  columns, rows: of the raster; blocks: on each side (on a raster with fewer cells, each cell is a block)

    Source: grid partitioning of PS2Stream, section VI-B, with 2^6 x 2^6 blocks. The paper does not say how blocks are
    assigned to workers; the curve keeps the blocks of a worker together, so that few subscriptions are stored twice.
    """
    chosen, grid = options_and_raster("grid", sample, options, DEFAULTS)
    wide, high = min(chosen["blocks"], grid.columns), min(chosen["blocks"], grid.rows)
    # Divide columns and rows into blocks, and number the blocks along the curve.
    block_x = np.arange(grid.columns) * wide // grid.columns
    block_y = np.arange(grid.rows) * high // grid.rows
    walk_x, walk_y = hilbert_walk(wide, high)
    position = np.empty((high, wide), dtype=np.int32)
    position[walk_y, walk_x] = np.arange(wide * high)
    # Cut the curve into one run for each worker.
    counts = build_region_counts(sample, grid)
    first_x, last_x = _ends(block_x, walk_x)
    first_y, last_y = _ends(block_y, walk_y)
    blocks = (first_x, first_y, last_x, last_y)
    cells = compute_cell_ranges(grid, sample.boxes[np.diff(sample.post_offsets) > 0])
    ranges = np.column_stack([block[side] for block, side in zip((block_x, block_y) * 2, cells.T)]).astype(np.int32)
    entry, previous = find_block_entries(ranges, position, walk_x.astype(np.int32), walk_y.astype(np.int32))
    leaf_worker = assign_runs(counts, blocks, cost.rates(sample), entry, previous, workers)
    return space_plan("grid", grid, position[np.ix_(block_y, block_x)].ravel(), leaf_worker, workers, chosen)


def _ends(block_of: np.ndarray, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and last column (or row) of each of `blocks`."""
    return np.searchsorted(block_of, blocks), np.searchsorted(block_of, blocks, side="right") - 1
