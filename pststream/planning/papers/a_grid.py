"""A-Grid planner: divide a fine grid into one rectangle for each worker by cutting the costliest one in two, again and
again, where the costlier part becomes cheapest.
"""

import heapq
import math
from dataclasses import replace

import numpy as np

from pststream.planning.cell_loads import count_cell_checks
from pststream.planning.load_model import CostModel
from pststream.planning.planners.contract import Options, number_cells, options_and_raster
from pststream.planning.planners.rectangle_cuts import COLUMNS_APART, ROWS_APART, Rectangle
from pststream.planning.region_counts import build_area_sums, sum_area
from pststream.plans.plan import PartitionPlan, space_plan
from pststream.plans.planner_sample import WorkloadSample

DEFAULTS = {"columns": 1000, "rows": 1000}

LEAST_SIDE = 64
"""Least number of columns and rows, unless the options allow fewer.

The paper's widest regions have 1.5% of the side of the space, which makes 67. Wider ones, such as those of `knn`
subscriptions that still lack objects, would leave no cells to cut.
"""


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan with one leaf for each worker, each a rectangle of the fine grid.

    The cost of a cell is the number of checks there (`count_cell_checks`), that of a partition the sum of its cells.
    With fewer cells than workers, the last workers get none.

    options  columns, rows: of the fine grid at most; its cells are as wide and high as the mean subscription

    Source: Tornado, sections 4.1 and 5. Departures: the cells are as wide as the mean box and as high as it, at least
    LEAST_SIDE of them a side; a partition of a single cell is set aside and the next costliest one is cut; among equal
    costs the partition with most cells is cut, along its longer side, as near to the middle as possible. The constants
    of the cost model are not used.
    """
    chosen, grid = options_and_raster("a_grid", sample, options, DEFAULTS)
    if sample.pieces:
        width, height = (sample.boxes[:, 2:] - sample.boxes[:, :2]).mean(axis=0).tolist()
        columns = _side(grid.east - grid.west, width, grid.columns)
        grid = replace(grid, columns=columns, rows=_side(grid.north - grid.south, height, grid.rows))
    partitions = cut_partitions(build_area_sums(count_cell_checks(sample, grid)), workers)
    cell_leaf = number_cells(grid, partitions)
    return space_plan("a_grid", grid, cell_leaf, np.arange(len(partitions)), workers, chosen)


def _side(length: float, mean: float, most: int) -> int:
    """Return the number of cells of length `mean` in `length`, at least LEAST_SIDE and at most `most`."""
    wanted = math.ceil(length / mean) if mean * most > length else most
    return min(max(wanted, LEAST_SIDE), most)


def cut_partitions(sums: np.ndarray, workers: int) -> list[Rectangle]:
    """Cut the whole raster into a rectangle for each worker, in the order of the first worker's cuts.

    sums  area sums of the cost of each cell (`build_area_sums`)
    Returns `workers` rectangles, or fewer if all are single cells.
    """
    whole = Rectangle(0, 0, sums.shape[1] - 2, sums.shape[0] - 2)
    partitions, queue = [whole], [_rank(sums, 0, whole)]
    while len(partitions) < workers and queue:
        number = heapq.heappop(queue)[-1]
        if partitions[number].cells == 1:
            continue
        low, high = find_cheapest_cut(sums, partitions[number])
        partitions[number] = low
        partitions.append(high)
        heapq.heappush(queue, _rank(sums, number, low))
        heapq.heappush(queue, _rank(sums, len(partitions) - 1, high))
    return partitions


def _rank(sums: np.ndarray, number: int, partition: Rectangle) -> tuple[int, int, int]:
    """Return the place of a partition in the queue: by cost, then by cells, the most first, then by number."""
    return -int(sum_area(sums, *partition)), -partition.cells, number


def find_cheapest_cut(sums: np.ndarray, partition: Rectangle) -> tuple[Rectangle, Rectangle]:
    """Return both parts of the row or column cut of a partition whose costlier part is cheapest.

    Among equals, the cut of the longer side that is nearest to its middle.
    """
    total, cuts = sum_area(sums, *partition), []
    for axis in (COLUMNS_APART, ROWS_APART):
        lines, others = partition.lines(axis), partition.lines(1 - axis)
        low = sum_area(sums, *partition.cut(axis, lines[:-1])[0])
        costlier, off_middle = np.maximum(low, total - low), np.abs(2 * np.arange(1, len(lines)) - len(lines))
        is_shorter = (len(lines), -axis) < (len(others), axis - 1)
        for best in np.lexsort((off_middle, costlier))[:1].tolist():
            cuts.append((int(costlier[best]), is_shorter, int(off_middle[best]), axis, int(lines[best])))
    return partition.cut(*min(cuts)[3:])
