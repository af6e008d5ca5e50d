"""Compute the plan that results when raster cells or terms move to another worker, and compare two plans by cell."""

from dataclasses import dataclass, replace

import numpy as np

from pststream.base.arrays import concatenate_ranges, distinct_values
from pststream.plans.plan import ObjectPlan, PartitionPlan, is_one_worker


@dataclass(frozen=True)
class Move:
    """Raster cells that move from one worker to another.

    cells  int64[n]   raster cells of the plan, ascending
    terms  int64[m]   ascending: only these terms of the cells move; None: all terms that `origin` serves
    """

    origin: int
    target: int
    cells: np.ndarray
    terms: np.ndarray | None = None


def apply_move(plan: PartitionPlan, move: Move) -> PartitionPlan:
    """Return the plan after a move.

    Terms of the cells that `origin` does not serve stay where they are. A tree whose leaves are served whole is given
    up, as moved cells are no leaves of it. Raises ValueError if a leaf shares its objects, for its units move as they
    are, or if the move has `terms` and `origin` does not serve the cells whole.
    """
    if isinstance(plan, ObjectPlan):
        raise ValueError("raster cells of a leaf that shares its objects do not move")
    plan = replace(plan, nodes=None)
    if move.terms is None:
        return _compact(_move_cells(plan, move))
    return _compact(_move_terms(plan, move, move.terms))


def changed_cells(before: PartitionPlan, after: PartitionPlan) -> np.ndarray:
    """Return the raster cells with a term that another worker serves: int64[n], ascending; all if the rasters or the
    numbers of the workers in the index differ.

    A cell also counts as changed if its leaf lists other terms, even if the same workers serve them.
    """
    if before.grid != after.grid or not np.array_equal(before.numbers_in_index, after.numbers_in_index):
        return np.arange(after.grid.cells)
    seen: dict[tuple[bytes, ...], int] = {}
    old, new = (
        np.array([seen.setdefault(plan.servers(leaf), len(seen)) for leaf in range(plan.leaves)])[plan.cell_leaf]
        for plan in (before, after)
    )
    return np.flatnonzero(old != new)


def _move_cells(plan: PartitionPlan, move: Move) -> PartitionPlan:
    """Copy each leaf that has some of the cells, for these cells; units of `origin` in the copy belong to `target`."""
    touched = distinct_values(plan.cell_leaf[move.cells])
    copied_leaf = np.full(plan.leaves, -1, np.int64)
    copied_leaf[touched] = plan.leaves + np.arange(len(touched))
    units = np.concatenate([np.empty(0, np.int64), *(_units_of(plan, leaf) for leaf in touched)])
    copied_unit = np.full(plan.units, -1, np.int64)
    copied_unit[units] = plan.units + np.arange(len(units))
    worker = plan.unit_worker[units]
    cell_leaf = plan.cell_leaf.copy()
    cell_leaf[move.cells] = copied_leaf[cell_leaf[move.cells]]
    leaf_unit = plan.leaf_unit[touched]
    term_indices, term_offsets = _slices(plan.term_offsets, touched)
    spread_indices, spread_offsets = _slices(plan.spread_offsets, touched)
    return replace(
        plan,
        cell_leaf=cell_leaf,
        leaf_unit=_append_int32(plan.leaf_unit, np.where(leaf_unit >= 0, copied_unit[np.maximum(leaf_unit, 0)], -1)),
        term_offsets=np.append(plan.term_offsets, plan.term_offsets[-1] + term_offsets),
        terms=np.append(plan.terms, plan.terms[term_indices]),
        term_unit=_append_int32(plan.term_unit, copied_unit[plan.term_unit[term_indices]]),
        spread_offsets=np.append(plan.spread_offsets, plan.spread_offsets[-1] + spread_offsets),
        spread_unit=_append_int32(plan.spread_unit, copied_unit[plan.spread_unit[spread_indices]]),
        unit_worker=_append_int32(plan.unit_worker, np.where(worker == move.origin, move.target, worker)),
    )


def _move_terms(plan: PartitionPlan, move: Move, terms: np.ndarray) -> PartitionPlan:
    """Make the cells a leaf of two units: one of `target` with the terms, one of `origin` with all other terms."""
    unit = plan.leaf_unit[plan.cell_leaf[move.cells]]
    if (unit < 0).any() or (plan.unit_worker[unit] != move.origin).any():
        raise ValueError(f"worker {move.origin} does not serve these cells whole")
    cell_leaf = plan.cell_leaf.copy()
    cell_leaf[move.cells] = plan.leaves
    target_unit, origin_unit = plan.units, plan.units + 1
    return replace(
        plan,
        cell_leaf=cell_leaf,
        leaf_unit=_append_int32(plan.leaf_unit, np.array([-1])),
        term_offsets=np.append(plan.term_offsets, plan.term_offsets[-1] + len(terms)),
        terms=np.append(plan.terms, terms),
        term_unit=_append_int32(plan.term_unit, np.full(len(terms), target_unit)),
        spread_offsets=np.append(plan.spread_offsets, plan.spread_offsets[-1] + 1),
        spread_unit=_append_int32(plan.spread_unit, np.array([origin_unit])),
        unit_worker=_append_int32(plan.unit_worker, np.array([move.target, move.origin])),
    )


def _compact(plan: PartitionPlan) -> PartitionPlan:
    """Drop leaves without cells, and their units; renumber the rest.

    Text leaves that the same workers serve alike become one leaf, so that moves back and forth do not copy terms
    without end. Text leaves of one worker become leaves that it serves whole.
    """
    plan = _merge_single_worker_leaves(plan)
    first: dict[tuple[bytes, ...], int] = {}
    leaves = np.arange(plan.leaves)
    for leaf in np.flatnonzero(plan.leaf_unit < 0).tolist():
        leaves[leaf] = first.setdefault(plan.servers(leaf), leaf)
    plan = replace(plan, cell_leaf=leaves[plan.cell_leaf])
    used = np.flatnonzero(np.bincount(plan.cell_leaf, minlength=plan.leaves))  # ascending, without a sort of all cells
    leaf_number = np.full(plan.leaves, -1, np.int64)
    leaf_number[used] = np.arange(len(used))
    term_indices, term_offsets = _slices(plan.term_offsets, used)
    spread_indices, spread_offsets = _slices(plan.spread_offsets, used)
    units = np.sort(np.concatenate([_units_of(plan, leaf) for leaf in used.tolist()]))
    unit_number = np.full(plan.units, -1, np.int64)
    unit_number[units] = np.arange(len(units))
    leaf_unit = plan.leaf_unit[used]
    return replace(
        plan,
        cell_leaf=leaf_number[plan.cell_leaf].astype(np.int32),
        leaf_unit=np.where(leaf_unit >= 0, unit_number[np.maximum(leaf_unit, 0)], -1).astype(np.int32),
        term_offsets=np.append(0, term_offsets),
        terms=plan.terms[term_indices],
        term_unit=unit_number[plan.term_unit[term_indices]].astype(np.int32),
        spread_offsets=np.append(0, spread_offsets),
        spread_unit=unit_number[plan.spread_unit[spread_indices]].astype(np.int32),
        unit_worker=plan.unit_worker[units],
    )


def _merge_single_worker_leaves(plan: PartitionPlan) -> PartitionPlan:
    """Turn text leaves with a single worker into leaves that this worker serves whole."""
    leaf_unit = plan.leaf_unit.copy()
    for leaf in np.flatnonzero(leaf_unit < 0).tolist():
        if is_one_worker(*plan.text_workers(leaf)):
            leaf_unit[leaf] = plan.spread_unit[plan.spread_offsets[leaf]]
    terms, term_offsets = _emptied(plan.term_offsets, leaf_unit >= 0)
    spread, spread_offsets = _emptied(plan.spread_offsets, leaf_unit >= 0)
    return replace(
        plan,
        leaf_unit=leaf_unit,
        term_offsets=term_offsets,
        terms=plan.terms[terms],
        term_unit=plan.term_unit[terms],
        spread_offsets=spread_offsets,
        spread_unit=plan.spread_unit[spread],
    )


def _emptied(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a mask of the values of a CSR that remain when some rows are emptied (bool), and the new offsets."""
    lengths = np.diff(offsets)
    return np.repeat(~rows, lengths), np.append(0, np.cumsum(np.where(rows, 0, lengths)))


def _units_of(plan: PartitionPlan, leaf: int) -> np.ndarray:
    """Return the units of a leaf, ascending."""
    if plan.leaf_unit[leaf] >= 0:
        return plan.leaf_unit[leaf : leaf + 1].astype(np.int64)
    terms = plan.term_unit[plan.term_offsets[leaf] : plan.term_offsets[leaf + 1]]
    spread = plan.spread_unit[plan.spread_offsets[leaf] : plan.spread_offsets[leaf + 1]]
    return distinct_values(np.concatenate([terms, spread])).astype(np.int64)


def _slices(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the values of these rows of a CSR, and the end of each row among these positions."""
    lengths = np.diff(offsets)[rows]
    return concatenate_ranges(offsets[:-1][rows], lengths), np.cumsum(lengths)


def _append_int32(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.concatenate([first, second]).astype(np.int32)
