"""R-tree planner: pack sampled objects into leaves (STR), and assign each worker a run of leaves on a Hilbert curve."""

import numpy as np

from pststream.base.arrays import distinct_values
from pststream.kernels.planning.cut_curve import find_leaf_entries
from pststream.kernels.routing.pyramid import build_pyramid
from pststream.planning.load_model import CostModel
from pststream.planning.planners.contract import RASTER_OPTIONS, Options, number_cells, options_and_raster
from pststream.planning.planners.rectangle_cuts import assign_runs
from pststream.planning.raster import compute_cell_ranges, hilbert_rank
from pststream.planning.region_counts import build_region_counts
from pststream.plans.plan import PartitionPlan, space_plan
from pststream.plans.planner_sample import WorkloadSample

DEFAULTS = {**RASTER_OPTIONS, "leaves": 1024}


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan with a leaf and a unit for each leaf of the tree; each holds about the same number of objects.

    The objects are packed by sort-tile-recursive (STR): vertical slabs with the same number of objects, each cut into
    tiles with the same number. The leaves are ordered along a Hilbert curve through their middles; each worker gets a
    run of them, cut so that the load of the most loaded worker is least. Without objects the tiles are of one size.

    options  columns, rows: of the raster; leaves: approximate number (fewer if raster cells cannot be divided)

    Source: R-tree partitioning of PS2Stream, section VI-B, which names SpatialHadoop for it; there the leaves of an
    R-tree bulk-loaded by STR are the partitions (Leutenegger, Lopez, Edgington, "STR: a simple and efficient algorithm
    for R-tree packing", ICDE 1997). The paper does not say how leaves are assigned. Departures: tiles end at borders
    of raster cells and cover all the space, so that each point has one leaf; only objects with a live term are packed.
    """
    chosen, grid = options_and_raster("r_tree", sample, options, DEFAULTS)
    counts = build_region_counts(sample, grid)
    # Pack the objects into leaves: first column, first row, last column, last row of each.
    slabs = int(np.ceil(np.sqrt(chosen["leaves"])))
    tiles = int(np.ceil(chosen["leaves"] / slabs))
    columns, rows = np.arange(grid.columns), np.arange(grid.rows)
    boxes = []
    for west, east in _even_runs(counts.objects(columns, 0, columns, grid.rows - 1), slabs):
        boxes += [(west, low, east, high) for low, high in _even_runs(counts.objects(west, rows, east, rows), tiles)]
    # Order the leaves along the curve.
    x0, y0, x1, y1 = leaves = np.array(boxes, dtype=np.int64).T
    rank = hilbert_rank((x0 + x1) // 2, (y0 + y1) // 2, max(grid.columns, grid.rows))
    leaves = leaves[:, np.argsort(rank, kind="stable")]
    cell_leaf = number_cells(grid, leaves.T)
    # Cut the leaves into runs.
    ranges = compute_cell_ranges(grid, sample.boxes[np.diff(sample.post_offsets) > 0])
    entry, previous = find_leaf_entries(ranges, build_pyramid(cell_leaf, grid.columns, grid.rows, len(leaves.T)))
    leaf_worker = assign_runs(counts, tuple(leaves), cost.rates(sample), entry, previous, workers)
    return space_plan("r_tree", grid, cell_leaf, leaf_worker, workers, chosen)


def _even_runs(weights: np.ndarray, runs: int) -> list[tuple[int, int]]:
    """Return the ends of at most `runs` runs of about equal weight; of equal length if all weights are 0."""
    sums = np.cumsum(weights if weights.any() else np.ones_like(weights))
    wanted = np.arange(1, runs) * (sums[-1] / runs)
    at = np.searchsorted(sums, wanted)
    nearer = (at > 0) & (wanted - sums[at - 1] < sums[at] - wanted)
    ends = distinct_values(np.append(np.minimum(at + 1 - nearer, len(sums)), len(sums)))
    starts = np.append(0, ends[:-1])
    return list(zip(starts.tolist(), (ends - 1).tolist()))
