"""Uniform planner: give each worker one of as many equal rectangles, whatever the load."""

import math

import numpy as np

from pststream.planning.load_model import CostModel
from pststream.planning.planners.contract import Options, options_and_raster
from pststream.plans.plan import PartitionPlan, space_plan
from pststream.plans.planner_sample import WorkloadSample


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan with one leaf for each worker, all equally wide and equally high.

    The rectangles are as square as the number of workers permits: 4 x 2 for eight workers, 5 x 1 for five. On a raster
    with fewer columns or rows than that, there are fewer leaves than workers.

    options  columns, rows: of the raster

    Source: uniform spatial partitioning, a peer in Tornado, section 6.2, whose numbers of evaluators are squares.
    Departures: other numbers of workers; sides are whole raster cells, so they differ by up to one.
    """
    chosen, grid = options_and_raster("uniform", sample, options)
    high = max(number for number in range(1, math.isqrt(workers) + 1) if workers % number == 0)
    wide, high = min(workers // high, grid.columns), min(high, grid.rows)
    column = np.arange(grid.columns) * wide // grid.columns
    row = np.arange(grid.rows) * high // grid.rows
    cell_leaf = row[:, None] * wide + column
    return space_plan("uniform", grid, cell_leaf.ravel(), np.arange(wide * high), workers, chosen)
