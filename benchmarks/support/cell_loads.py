"""Estimate the load of single raster cells, which PS2Stream moves, to compare it with that of blocks of cells."""

from dataclasses import dataclass

import numpy as np

from pststream.kernels.planning.cell_loads import count_cell_objects, mark_leaf_pieces
from pststream.kernels.routing.dispatch import PlanArrays
from pststream.planning.dispatch import plan_arrays
from pststream.planning.live_terms import mark_live_terms
from pststream.planning.load_model import LoadRates
from pststream.planning.raster import compute_cell_ranges
from pststream.planning.region_counts import count_covering, tabulate_corners
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
    arrays, grid = plan_arrays(plan), plan.grid
    terms = (sample.term_offsets, sample.terms, mark_live_terms(sample), sample.reads)
    objects, reads = count_cell_objects(grid.cell(sample.lon, sample.lat), *terms, arrays, worker)
    ranges = compute_cell_ranges(grid, sample.boxes).astype(np.int64)
    subscriptions = np.zeros(grid.cells, np.int64)
    whole = np.diff(sample.post_offsets) > 0
    for leaves, stored in _stored(sample, plan, arrays, worker, whole):
        mine = np.isin(plan.cell_leaf, leaves)
        subscriptions[mine] = count_covering(grid, tabulate_corners(grid, ranges[stored])).ravel()[mine]
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
        if worker in np.append(*plan.text_workers(leaf)):
            stored = mark_leaf_pieces(leaf, sample.post_offsets, sample.post_terms, arrays, worker)
            groups.append((np.array([leaf]), stored))
    return groups
