"""The kd-tree planner: the raster cut in two again and again until each worker has one rectangle."""

import numpy as np

from pststream.cost.load_model import CostModel
from pststream.cost.region_counts import region_counts
from pststream.domain.plan import PartitionPlan, space_plan
from pststream.domain.planner_sample import WorkloadSample
from pststream.partitioning.contract import Options, whole_numbers
from pststream.partitioning.grow_tree import best_tree
from pststream.partitioning.rectangle_cuts import Rectangle
from pststream.space.plan_raster import COLUMNS, ROWS, bounds_of

DEFAULTS = {"columns": COLUMNS, "rows": ROWS}


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """One leaf a worker, by recursive cuts along the cell borders of the raster (`tree.best_tree`).

    With fewer cells than workers, the last workers get none.

    options  columns, rows: of the raster

    Source: the kd-tree baseline of PS2Stream, section VI-B. The paper does not say how a node is cut; it names AQWA and
    Tornado for it. Departure: uneven numbers of workers, and the correction.
    """
    chosen = whole_numbers("kd_tree", options, DEFAULTS)
    grid = bounds_of(sample.lon, sample.lat, sample.boxes, chosen["columns"], chosen["rows"])
    whole = Rectangle(0, 0, grid.columns - 1, grid.rows - 1)
    tree = best_tree(whole, workers, region_counts(sample, grid), cost.rates(sample))
    cell_leaf = np.zeros((grid.rows, grid.columns), dtype=np.int32)
    for leaf, node in enumerate(tree.leaves()):
        x0, y0, x1, y1 = node.rectangle
        cell_leaf[y0 : y1 + 1, x0 : x1 + 1] = leaf
    return space_plan("kd_tree", grid, cell_leaf.ravel(), np.arange(len(tree.loads)), workers, dict(chosen))
