"""A planner that is no part of the package: equal stripes of columns, for `test_new_planner.py`."""

import numpy as np

from pststream.planning.load_model import CostModel
from pststream.planning.planners.contract import RASTER_OPTIONS, Options, make_raster, read_integer_options
from pststream.plans.plan import PartitionPlan, space_plan
from pststream.plans.planner_sample import WorkloadSample


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """One leaf a worker, each as many columns wide as the next; with fewer columns than workers, some get none."""
    chosen = read_integer_options("stripes", options, RASTER_OPTIONS)
    grid = make_raster(sample, chosen)
    stripes = min(workers, grid.columns)
    cell_leaf = np.tile(np.arange(grid.columns) * stripes // grid.columns, grid.rows)
    return space_plan("stripes", grid, cell_leaf, np.arange(stripes), workers, dict(chosen))
