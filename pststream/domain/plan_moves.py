"""Plans that differ from another in who serves a few cells: what a migration turns one plan into."""

from dataclasses import dataclass, replace

import numpy as np

from pststream.domain.plan import PartitionPlan


@dataclass(frozen=True)
class Move:
    """Cells that go from one worker to another.

    cells  int64[n]   cells of the plan's raster, ascending
    terms  int64[m]   ascending: only these of the cells' terms go, and the rest stays; None: all that `origin` serves
    """

    origin: int
    target: int
    cells: np.ndarray
    terms: np.ndarray | None = None


def moved(plan: PartitionPlan, move: Move) -> PartitionPlan:
    """The plan with a move made.

    What of the cells `origin` does not serve stays as it is. Cells that are split by `terms` must be served whole by
    `origin`; else ValueError.
    """
    if move.terms is None:
        return _compact(_handed_over(plan, move))
    return _compact(_split(plan, move, move.terms))


def changed_cells(before: PartitionPlan, after: PartitionPlan) -> np.ndarray:
    """Cells of which other workers serve some term: int64[n], ascending; all of `after` where the rasters differ.

    A cell is taken to have changed if its leaf names other terms, even if the same workers happen to serve them.
    """
    if before.grid != after.grid:
        return np.arange(after.grid.cells)
    seen: dict[tuple[bytes, ...], int] = {}
    old, new = (
        np.array([seen.setdefault(_servers(plan, leaf), len(seen)) for leaf in range(plan.leaves)])[plan.cell_leaf]
        for plan in (before, after)
    )
    return np.flatnonzero(old != new)


def _handed_over(plan: PartitionPlan, move: Move) -> PartitionPlan:
    """Each leaf with some of the cells gets a twin for them, whose units are the target's where they were origin's."""
    touched = np.unique(plan.cell_leaf[move.cells])
    twin = np.full(plan.leaves, -1, np.int64)
    twin[touched] = plan.leaves + np.arange(len(touched))
    units = np.concatenate([np.empty(0, np.int64), *(_units_of(plan, leaf) for leaf in touched)])
    twin_unit = np.full(plan.units, -1, np.int64)
    twin_unit[units] = plan.units + np.arange(len(units))
    worker = plan.unit_worker[units]
    cell_leaf = plan.cell_leaf.copy()
    cell_leaf[move.cells] = twin[cell_leaf[move.cells]]
    leaf_unit = plan.leaf_unit[touched]
    term_places, term_offsets = _slices(plan.term_offsets, touched)
    spread_places, spread_offsets = _slices(plan.spread_offsets, touched)
    return replace(
        plan,
        cell_leaf=cell_leaf,
        leaf_unit=_joined(plan.leaf_unit, np.where(leaf_unit >= 0, twin_unit[np.maximum(leaf_unit, 0)], -1)),
        term_offsets=np.append(plan.term_offsets, plan.term_offsets[-1] + term_offsets),
        terms=np.append(plan.terms, plan.terms[term_places]),
        term_unit=_joined(plan.term_unit, twin_unit[plan.term_unit[term_places]]),
        spread_offsets=np.append(plan.spread_offsets, plan.spread_offsets[-1] + spread_offsets),
        spread_unit=_joined(plan.spread_unit, twin_unit[plan.spread_unit[spread_places]]),
        unit_worker=_joined(plan.unit_worker, np.where(worker == move.origin, move.target, worker)),
    )


def _split(plan: PartitionPlan, move: Move, terms: np.ndarray) -> PartitionPlan:
    """The cells become a leaf of two units: the target's with the terms, and the origin's with all others."""
    unit = plan.leaf_unit[plan.cell_leaf[move.cells]]
    if (unit < 0).any() or (plan.unit_worker[unit] != move.origin).any():
        raise ValueError(f"worker {move.origin} does not serve these cells whole")
    cell_leaf = plan.cell_leaf.copy()
    cell_leaf[move.cells] = plan.leaves
    theirs, ours = plan.units, plan.units + 1
    return replace(
        plan,
        cell_leaf=cell_leaf,
        leaf_unit=_joined(plan.leaf_unit, np.array([-1])),
        term_offsets=np.append(plan.term_offsets, plan.term_offsets[-1] + len(terms)),
        terms=np.append(plan.terms, terms),
        term_unit=_joined(plan.term_unit, np.full(len(terms), theirs)),
        spread_offsets=np.append(plan.spread_offsets, plan.spread_offsets[-1] + 1),
        spread_unit=_joined(plan.spread_unit, np.array([ours])),
        unit_worker=_joined(plan.unit_worker, np.array([move.target, move.origin])),
    )


def _compact(plan: PartitionPlan) -> PartitionPlan:
    """Without leaves that no cell has, and without their units; numbers close up. Leaves by text that are served alike
    become one, so that moves to and fro do not copy terms without end; those on one worker are served whole.
    """
    plan = _whole(plan)
    plan = replace(plan, cell_leaf=_alike(plan)[plan.cell_leaf])
    used = np.unique(plan.cell_leaf)
    leaf_number = np.full(plan.leaves, -1, np.int64)
    leaf_number[used] = np.arange(len(used))
    term_places, term_offsets = _slices(plan.term_offsets, used)
    spread_places, spread_offsets = _slices(plan.spread_offsets, used)
    units = np.sort(np.concatenate([_units_of(plan, leaf) for leaf in used]))
    unit_number = np.full(plan.units, -1, np.int64)
    unit_number[units] = np.arange(len(units))
    leaf_unit = plan.leaf_unit[used]
    return replace(
        plan,
        cell_leaf=leaf_number[plan.cell_leaf].astype(np.int32),
        leaf_unit=np.where(leaf_unit >= 0, unit_number[np.maximum(leaf_unit, 0)], -1).astype(np.int32),
        term_offsets=np.append(0, term_offsets),
        terms=plan.terms[term_places],
        term_unit=unit_number[plan.term_unit[term_places]].astype(np.int32),
        spread_offsets=np.append(0, spread_offsets),
        spread_unit=unit_number[plan.spread_unit[spread_places]].astype(np.int32),
        unit_worker=plan.unit_worker[units],
    )


def _alike(plan: PartitionPlan) -> np.ndarray:
    """For each leaf, the first one by text whose terms the same workers serve; else the leaf itself."""
    first: dict[tuple[bytes, ...], int] = {}
    leaves = np.arange(plan.leaves)
    for leaf in np.flatnonzero(plan.leaf_unit < 0).tolist():
        leaves[leaf] = first.setdefault(_servers(plan, leaf), leaf)
    return leaves


def _servers(plan: PartitionPlan, leaf: int) -> tuple[bytes, ...]:
    """The workers of a leaf's terms: equal for leaves that are served alike."""
    if plan.leaf_unit[leaf] >= 0:
        return (plan.unit_worker[plan.leaf_unit[leaf]].tobytes(),)
    named, sharing = _workers(plan, leaf)
    if _one_worker(named, sharing):
        return (sharing[0].tobytes(),)
    terms = plan.terms[plan.term_offsets[leaf] : plan.term_offsets[leaf + 1]]
    return tuple(array.tobytes() for array in (terms, named, sharing))


def _workers(plan: PartitionPlan, leaf: int) -> tuple[np.ndarray, np.ndarray]:
    """Of a leaf by text, the worker of each term that it names, and the workers that share the others."""
    named = plan.term_unit[plan.term_offsets[leaf] : plan.term_offsets[leaf + 1]]
    sharing = plan.spread_unit[plan.spread_offsets[leaf] : plan.spread_offsets[leaf + 1]]
    return plan.unit_worker[named], plan.unit_worker[sharing]


def _one_worker(named: np.ndarray, sharing: np.ndarray) -> bool:
    return bool((sharing == sharing[0]).all() and (named == sharing[0]).all())


def _whole(plan: PartitionPlan) -> PartitionPlan:
    """Leaves by text whose terms are all one worker's become that worker's as a whole."""
    leaf_unit = plan.leaf_unit.copy()
    for leaf in np.flatnonzero(leaf_unit < 0).tolist():
        if _one_worker(*_workers(plan, leaf)):
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
    """The values of a CSR that are left (bool) when some rows are emptied, and their offsets."""
    lengths = np.diff(offsets)
    return np.repeat(~rows, lengths), np.append(0, np.cumsum(np.where(rows, 0, lengths)))


def _units_of(plan: PartitionPlan, leaf: int) -> np.ndarray:
    """The units of a leaf, ascending."""
    if plan.leaf_unit[leaf] >= 0:
        return plan.leaf_unit[leaf : leaf + 1].astype(np.int64)
    terms = plan.term_unit[plan.term_offsets[leaf] : plan.term_offsets[leaf + 1]]
    spread = plan.spread_unit[plan.spread_offsets[leaf] : plan.spread_offsets[leaf + 1]]
    return np.union1d(terms, spread).astype(np.int64)


def _slices(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the values of these rows of a CSR, and where each row's end among them."""
    lengths = np.diff(offsets)[rows]
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(offsets[:-1][rows] - (ends - lengths), lengths), ends


def _joined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.concatenate([first, second]).astype(np.int32)
