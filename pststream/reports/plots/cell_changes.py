"""Compare two plans raster cell by raster cell: the worker of each cell in both, and the cells that change worker."""

from dataclasses import dataclass

import numpy as np

from pststream.plans.plan import PartitionPlan

BY_TEXT = -1


@dataclass(frozen=True)
class PlanChange:
    """The cells of two plans, on the raster of the later plan.

    before, after  int64[cells]  worker of each cell; BY_TEXT: several share it
    changed        bool[cells]   whether some of the cell's terms are served by another worker than before
    """

    before: np.ndarray
    after: np.ndarray
    changed: np.ndarray


def compare_cells(before: PartitionPlan, after: PartitionPlan) -> PlanChange:
    """Compare two plans; if their rasters differ, compare a cell with the cell of the earlier plan at its centre."""
    numbers: dict[tuple[bytes, ...], int] = {}
    old, new = (_number_leaves(plan, numbers) for plan in (before, after))
    grid = after.grid
    cell = np.arange(grid.cells)
    if before.grid != grid:
        lon = grid.west + (cell % grid.columns + 0.5) * (grid.east - grid.west) / grid.columns
        lat = grid.south + (cell // grid.columns + 0.5) * (grid.north - grid.south) / grid.rows
        cell = before.grid.cell(lon, lat)
    leaf_before, leaf_after = before.cell_leaf[cell], after.cell_leaf
    changed = old[leaf_before] != new[leaf_after]
    return PlanChange(_worker_of_leaf(before)[leaf_before], _worker_of_leaf(after)[leaf_after], changed)


def _worker_of_leaf(plan: PartitionPlan) -> np.ndarray:
    worker = plan.unit_worker[np.maximum(plan.leaf_unit, 0)].astype(np.int64)
    return np.where(plan.leaf_unit >= 0, worker, BY_TEXT)


def _number_leaves(plan: PartitionPlan, numbers: dict[tuple[bytes, ...], int]) -> np.ndarray:
    """A number for each leaf, the same for leaves whose terms go to the same workers: int64[leaves]."""
    return np.array([numbers.setdefault(plan.servers(leaf), len(numbers)) for leaf in range(plan.leaves)], np.int64)
