"""Location planner of regions: a kd-tree whose leaves have alike products of subscriptions and objects."""

import numpy as np

from pststream.planning.load_model import CostModel
from pststream.planning.papers.topk_cuts import cut_space
from pststream.planning.planners.contract import Options, options_and_raster
from pststream.plans.plan import PartitionPlan, space_plan
from pststream.plans.planner_sample import WorkloadSample
from pststream.plans.topk_plan import find_leaves


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan with one leaf for each worker.

    options  columns, rows: of the raster

    Source: the location-based method of DSkype (Skype, section 7.3.2, Algorithm 3), for `range` and `knn`. Departures:
    those of `cut_space`; the place of a subscription is the middle of its box, and one that overlaps several leaves is
    stored in each; a raster cell belongs to the leaf of its middle, so a worker whose leaf is narrower than a cell may
    get none; an object goes to the worker of its own leaf, and not to all.
    """
    chosen, grid = options_and_raster("location", sample, options)
    places = (sample.boxes[:, :2] + sample.boxes[:, 2:]) / 2
    cuts = cut_space(places, np.column_stack([sample.lon, sample.lat]), workers)
    lon = grid.west + (np.arange(grid.columns) + 0.5) * ((grid.east - grid.west) / grid.columns)
    lat = grid.south + (np.arange(grid.rows) + 0.5) * ((grid.north - grid.south) / grid.rows)
    leaf_of_cell = find_leaves(cuts, np.tile(lon, grid.rows), np.repeat(lat, grid.columns))
    with_cells, cell_leaf = np.unique(leaf_of_cell, return_inverse=True)
    return space_plan("location", grid, cell_leaf.astype(np.int32), with_cells, workers, chosen)
