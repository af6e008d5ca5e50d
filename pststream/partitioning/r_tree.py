"""The R-tree planner: leaves of an R-tree packed by sort-tile-recursive, dealt to the workers along a Hilbert curve."""

import numpy as np

from pststream.cost.load_model import CostModel
from pststream.cost.region_counts import RegionCounts, region_counts
from pststream.domain.plan import PartitionPlan, space_plan
from pststream.domain.planner_sample import WorkloadSample
from pststream.kernels.planning.cut_curve import leaf_entries
from pststream.kernels.routing.pyramid import build_pyramid
from pststream.partitioning.contiguous_runs import deal_runs
from pststream.partitioning.contract import Options, whole_numbers
from pststream.samples.raster_ranges import cell_ranges
from pststream.space.hilbert import hilbert_rank
from pststream.space.plan_raster import COLUMNS, ROWS, bounds_of

DEFAULTS = {"columns": COLUMNS, "rows": ROWS, "leaves": 1024}


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """A leaf and a unit for each leaf of the tree, with about as many objects in each; a worker has a run of leaves.

    The objects are packed by sort-tile-recursive: vertical slabs of as many objects each, each slab cut into tiles of
    as many. Leaves are walked in the order of a Hilbert curve through their middles, and the runs are cut where the
    load of the most loaded worker is least. Without objects the tiles are of one size.

    options  columns, rows: of the raster; leaves: about how many (as cells do not part, there may be fewer)

    Source: R-tree partitioning of PS2Stream, section VI-B, which names SpatialHadoop for it; there the leaves of an
    R-tree bulk-loaded by STR are the partitions (Leutenegger, Lopez, Edgington, "STR: a simple and efficient algorithm
    for R-tree packing", ICDE 1997). The paper does not say how leaves come to workers. Departures: tiles end at cell
    borders and cover all the space, so that each point has one leaf; only objects with a live term are packed.
    """
    chosen = whole_numbers("r_tree", options, DEFAULTS)
    grid = bounds_of(sample.lon, sample.lat, sample.boxes, chosen["columns"], chosen["rows"])
    counts = region_counts(sample, grid)
    x0, y0, x1, y1 = leaves = _packed(counts, chosen["leaves"])
    rank = hilbert_rank((x0 + x1) // 2, (y0 + y1) // 2, max(grid.columns, grid.rows))
    x0, y0, x1, y1 = leaves = leaves[:, np.argsort(rank, kind="stable")]
    cell_leaf = np.empty((grid.rows, grid.columns), dtype=np.int32)
    for leaf in range(len(x0)):
        cell_leaf[y0[leaf] : y1[leaf] + 1, x0[leaf] : x1[leaf] + 1] = leaf
    ranges = cell_ranges(grid, sample.boxes[np.diff(sample.post_offsets) > 0])
    entry, previous = leaf_entries(ranges, build_pyramid(cell_leaf.ravel(), grid.columns, grid.rows, len(x0)))
    leaf_worker = deal_runs(counts, tuple(leaves), cost.rates(sample), entry, previous, workers)
    return space_plan("r_tree", grid, cell_leaf.ravel(), leaf_worker, workers, dict(chosen))


def _packed(counts: RegionCounts, leaves: int) -> np.ndarray:
    """First column, first row, last column, last row of each leaf: int64[4, n]."""
    slabs = int(np.ceil(np.sqrt(leaves)))
    tiles = int(np.ceil(leaves / slabs))
    columns = np.arange(counts.columns)
    found = []
    for west, east in _even_runs(counts.objects(columns, 0, columns, counts.rows - 1), slabs):
        rows = np.arange(counts.rows)
        found += [(west, low, east, high) for low, high in _even_runs(counts.objects(west, rows, east, rows), tiles)]
    return np.array(found, dtype=np.int64).T


def _even_runs(weights: np.ndarray, runs: int) -> list[tuple[int, int]]:
    """First and last of each of at most `runs` runs of about the same weight; of the same length if nothing weighs."""
    sums = np.cumsum(weights if weights.any() else np.ones_like(weights))
    wanted = np.arange(1, runs) * (sums[-1] / runs)
    at = np.searchsorted(sums, wanted)
    nearer = (at > 0) & (wanted - sums[at - 1] < sums[at] - wanted)
    ends = np.unique(np.append(np.minimum(at + 1 - nearer, len(sums)), len(sums)))
    starts = np.append(0, ends[:-1])
    return list(zip(starts.tolist(), (ends - 1).tolist()))
