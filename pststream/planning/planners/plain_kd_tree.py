"""Plain kd-tree planner: cut the raster at medians of the objects, by turns along both axes, into one leaf a worker."""

from collections.abc import Iterator

import numpy as np

from pststream.planning.load_model import CostModel
from pststream.planning.planners.contract import Options, number_cells, options_and_raster
from pststream.planning.planners.rectangle_cuts import COLUMNS_APART, ROWS_APART, Rectangle, can_cut
from pststream.planning.region_counts import RegionCounts, build_region_counts
from pststream.plans.plan import PartitionPlan, space_plan
from pststream.plans.planner_sample import WorkloadSample


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan with one leaf for each worker; every leaf has about the same number of objects.

    Subscriptions and costs have no influence. With fewer raster cells than workers, the last workers get none.

    options  columns, rows: of the raster

    Source: the kd-tree baseline of PS2Stream, section VI-B, as a kd-tree is commonly built: cuts at the median, along
    both axes by turns. The planner `kd_tree` cuts by load instead. Departures: numbers of workers that are not powers
    of two get parts in proportion; cuts are at borders of raster cells; only objects with a live term count. Where the
    objects do not decide, as there are none, the cells do.
    """
    chosen, grid = options_and_raster("plain_kd_tree", sample, options)
    counts = build_region_counts(sample, grid)
    leaves = list(_cut(Rectangle(0, 0, grid.columns - 1, grid.rows - 1), workers, COLUMNS_APART, counts))
    cell_leaf = number_cells(grid, leaves)
    return space_plan("plain_kd_tree", grid, cell_leaf, np.arange(len(leaves)), workers, chosen)


def _cut(node: Rectangle, workers: int, axis: int, counts: RegionCounts) -> Iterator[Rectangle]:
    """Yield the leaves of a node, low sides first; its first cut is on `axis` if the node is wide enough."""
    if workers == 1 or node.cells == 1:
        yield node
        return
    other = ROWS_APART if axis == COLUMNS_APART else COLUMNS_APART
    if not can_cut(axis, node):
        axis, other = other, axis
    lines = node.lines(axis)
    objects = counts.objects(*node.cut(axis, lines)[0])
    low, high = node.cut(axis, int(lines[_median(objects, (workers // 2) / workers)]))
    yield from _cut(low, workers // 2, other, counts)
    yield from _cut(high, workers - workers // 2, other, counts)


def _median(sums: np.ndarray, share: float) -> int:
    """Return the line behind which a cut leaves about `share` of the objects on the low side, never the last line.

    sums  int64[lines], objects up to each line
    """
    if sums[-1] == 0:
        sums = np.arange(1, len(sums) + 1)
    below = np.abs(sums[:-1] - share * sums[-1])
    return int(below.argmin())
