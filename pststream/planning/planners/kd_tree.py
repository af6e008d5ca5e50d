"""kd-tree planner: cut the raster in two by load, recursively, until each worker has one rectangle."""

import numpy as np

from pststream.planning.load_model import CostModel
from pststream.planning.planners.contract import Options, number_cells, options_and_raster
from pststream.planning.planners.grow_tree import grow_best_tree
from pststream.planning.planners.rectangle_cuts import Rectangle
from pststream.planning.region_counts import build_region_counts
from pststream.plans.plan import PartitionPlan, space_plan
from pststream.plans.planner_sample import WorkloadSample


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan with one leaf for each worker, by recursive cuts along raster cells (`grow_tree.grow_best_tree`).

    With fewer raster cells than workers, the last workers get none.

    options  columns, rows: of the raster

    Source: the kd-tree baseline of PS2Stream, section VI-B. The paper does not say how a node is cut; it names AQWA and
    Tornado for it. Departures: numbers of workers that are not powers of two, and corrected estimates.
    """
    chosen, grid = options_and_raster("kd_tree", sample, options)
    whole = Rectangle(0, 0, grid.columns - 1, grid.rows - 1)
    tree = grow_best_tree(whole, workers, build_region_counts(sample, grid), cost.rates(sample))
    cell_leaf = number_cells(grid, (node.rectangle for node in tree.leaves()))
    return space_plan("kd_tree", grid, cell_leaf, np.arange(len(tree.loads)), workers, chosen)
