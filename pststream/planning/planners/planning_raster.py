"""Lay the raster of a plan over a sample, and number its cells by the leaves of the plan."""

from collections.abc import Iterable, Mapping

import numpy as np

from pststream.planning.plan_raster import COLUMNS, ROWS, fit_raster
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample

RASTER_OPTIONS = {"columns": COLUMNS, "rows": ROWS}
"""Options of all planners, with the default of each."""


def make_raster(sample: WorkloadSample, options: Mapping[str, int]) -> DispatchGrid:
    """Return the raster over most of the objects of a sample (`fit_raster`); options: its columns and rows."""
    return fit_raster(sample.lon, sample.lat, sample.boxes, options["columns"], options["rows"])


def number_cells(grid: DispatchGrid, leaves: Iterable[tuple[int, int, int, int]]) -> np.ndarray:
    """Return the leaf of each raster cell: int32[cells], row by row.

    leaves  first column, first row, last column, last row of each; together they cover the raster
    """
    cell_leaf = np.zeros((grid.rows, grid.columns), np.int32)
    for leaf, (x0, y0, x1, y1) in enumerate(leaves):
        cell_leaf[y0 : y1 + 1, x0 : x1 + 1] = leaf
    return cell_leaf.ravel()
