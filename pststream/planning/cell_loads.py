"""Estimate, from a sample, the load and the stored subscriptions of one worker in each raster cell."""

from dataclasses import dataclass

import numpy as np

from pststream.kernels.planning.cell_loads import count_cell_objects, mark_leaf_pieces
from pststream.kernels.routing.dispatch import PlanArrays
from pststream.planning.live_terms import mark_live_terms
from pststream.planning.load_model import LoadRates
from pststream.planning.raster_ranges import compute_cell_ranges
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import WorkloadSample


@dataclass(frozen=True)
class CellLoads:
    """Raster cells of one worker that objects or subscriptions touch, ascending.

    cells          int64[n]    raster cells
    objects        int64[n]    sampled objects in the cell that go to the worker
    subscriptions  int64[n]    sampled boxes that overlap the cell and that the worker stores
    loads          float64[n]  seconds of the period
    """

    cells: np.ndarray
    objects: np.ndarray
    subscriptions: np.ndarray
    loads: np.ndarray


def compute_cell_loads(sample: WorkloadSample, plan: PartitionPlan, rates: LoadRates, worker: int) -> CellLoads:
    """Estimate the load of each raster cell of a worker.

    Departure from Definition 3 of PS2Stream, n_o * n_q, which is the first term of Definition 1 alone: here this term
    is the smallest, so all terms of Definition 1 are counted (`CostModel`). A box over several cells counts in each, as
    in the paper.
    """
    arrays = PlanArrays(*(getattr(plan, name) for name in PlanArrays._fields))
    grid = plan.grid
    cells_of = grid.cell(sample.lon, sample.lat)
    terms = (sample.term_offsets, sample.terms, mark_live_terms(sample), sample.reads)
    objects, reads = count_cell_objects(cells_of, *terms, arrays, worker)
    ranges = compute_cell_ranges(grid, sample.boxes).astype(np.int64)
    subscriptions = np.zeros(grid.cells, np.int64)
    whole = np.diff(sample.post_offsets) > 0
    for leaves, stored in _stored(sample, plan, arrays, worker, whole):
        mine = np.isin(plan.cell_leaf, leaves)
        subscriptions[mine] = _cover(ranges[stored], grid.columns, grid.rows)[mine]
    cells = np.flatnonzero((objects > 0) | (subscriptions > 0))
    loads = rates.load(*(counts[cells].astype(np.float64) for counts in (objects, subscriptions, reads)))
    return CellLoads(cells, objects[cells], subscriptions[cells], loads)


def _stored(
    sample: WorkloadSample, plan: PartitionPlan, arrays: PlanArrays, worker: int, posted: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return groups of leaves of the worker, and mark the pieces that it stores in each group: bool[pieces].

    The first group has all leaves that the worker serves whole; each leaf by text is a group of its own.
    """
    whole = plan.leaf_unit >= 0
    served = np.flatnonzero(whole & (plan.unit_worker[np.maximum(plan.leaf_unit, 0)] == worker))
    groups = [(served, posted)]
    for leaf in np.flatnonzero(~whole).tolist():
        units = [
            plan.term_unit[plan.term_offsets[leaf] : plan.term_offsets[leaf + 1]],
            plan.spread_unit[plan.spread_offsets[leaf] : plan.spread_offsets[leaf + 1]],
        ]
        if (plan.unit_worker[np.concatenate(units)] == worker).any():
            stored = mark_leaf_pieces(leaf, sample.post_offsets, sample.post_terms, arrays, worker)
            groups.append((np.array([leaf]), stored))
    return groups


def _cover(ranges: np.ndarray, columns: int, rows: int) -> np.ndarray:
    """Count the ranges (int64[n, 4]) that cover each raster cell: int64[cells]."""
    # Add 1 and -1 at the corners of each range; the sums along both axes are the counts.
    steps = np.zeros((rows + 1) * (columns + 1), np.int64)
    x0, y0, x1, y1 = ranges.T
    wide = columns + 1
    for sign, corner in (
        (1, y0 * wide + x0),
        (-1, y0 * wide + x1 + 1),
        (-1, (y1 + 1) * wide + x0),
        (1, (y1 + 1) * wide + x1 + 1),
    ):
        steps += sign * np.bincount(corner, minlength=len(steps))
    table = steps.reshape(rows + 1, wide)
    return table.cumsum(axis=0).cumsum(axis=1)[:rows, :columns].ravel()
