"""Count the objects and subscriptions of each unit and worker under a plan; find terms and objects that are live.

The load model counts a sample (`planning/load_model.py`).
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.postings import look_up
from pststream.kernels.routing.dispatch import PlanArrays, leaf_owner
from pststream.kernels.routing.pyramid import Pyramid, find_distinct_codes, make_search


@kernel
def find_live_terms(
    rows: np.ndarray, offsets: np.ndarray, terms: np.ndarray, table: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the live terms, which are the terms in the hash table, of some rows of a CSR.

    rows            int64[r]                  the rows
    offsets, terms  int64[n+1], int64[m]      terms of each row of the CSR
    Returns start int64[r+1], positions int32[k] in the terms of the hash table, origins int64[k] in `terms`.
    """
    start = np.zeros(len(rows) + 1, np.int64)
    positions = np.empty(len(terms), np.int32)
    origin = np.empty(len(terms), np.int64)
    size = 0
    for i in range(len(rows)):
        for t in range(offsets[rows[i]], offsets[rows[i] + 1]):
            position = look_up(terms[t], table)
            if position >= 0:
                positions[size] = position
                origin[size] = t
                size += 1
        start[i + 1] = size
    return start, positions[:size].copy(), origin[:size].copy()


@kernel
def mark_objects_with_live_terms(term_offsets: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Mark the objects that have a live term: bool[objects]."""
    has = np.zeros(len(term_offsets) - 1, np.bool_)
    for i in range(len(has)):
        for t in range(term_offsets[i], term_offsets[i + 1]):
            if live[t]:
                has[i] = True
                break
    return has


@kernel
def count_objects(
    cells: np.ndarray,
    object_offsets: np.ndarray,
    object_terms: np.ndarray,
    live: np.ndarray,
    reads: np.ndarray,
    plan: PlanArrays,
    workers: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count the objects that probe each unit and each worker, and the postings that are read for each unit.

    Returns unit objects int64[units], worker objects int64[workers], unit reads int64[units].
    reads  int32[len(object_terms)]  postings that each (object, term) reads
    The other arguments as in `dispatch.route`.
    """
    cell_leaf, unit_worker = plan.cell_leaf, plan.unit_worker
    of_unit = np.zeros(len(unit_worker), np.int64)
    of_worker = np.zeros(workers, np.int64)
    read = np.zeros(len(unit_worker), np.int64)
    seen_unit = np.full(len(of_unit), -1, np.int64)
    seen_worker = np.full(workers, -1, np.int64)
    for i in range(len(cells)):
        leaf = cell_leaf[cells[i]]
        for t in range(object_offsets[i], object_offsets[i + 1]):
            if live[t]:
                unit = leaf_owner(leaf, object_terms[t], plan)
                _count(unit, i, seen_unit, of_unit)
                _count(unit_worker[unit], i, seen_worker, of_worker)
                read[unit] += reads[t]
    return of_unit, of_worker, read


@kernel
def count_subscriptions(
    ranges: np.ndarray,
    order: np.ndarray,
    groups: np.ndarray,
    post_offsets: np.ndarray,
    post_terms: np.ndarray,
    plan: PlanArrays,
    leaves: Pyramid,
    workers: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Count the subscriptions that each unit and each worker stores: int64[units], int64[workers].

    ranges, post_offsets, post_terms  as in `dispatch.find_piece_workers`
    order, groups                     int64[n]   pieces in an order that keeps those of a subscription together, and
                                                 the subscription of each of them, from 0 and ascending
    leaves                            pyramid over the leaf of each raster cell
    """
    unit_worker = plan.unit_worker
    of_unit = np.zeros(len(unit_worker), np.int64)
    of_worker = np.zeros(workers, np.int64)
    seen_unit = np.full(len(of_unit), -1, np.int64)
    seen_worker = np.full(workers, -1, np.int64)
    search = make_search(leaves)
    for position in range(len(order)):
        # A piece without a posting term is stored nowhere.
        piece = order[position]
        start, stop = post_offsets[piece], post_offsets[piece + 1]
        if start == stop:
            continue
        # Find the units of its terms in each leaf that its box touches.
        for i in range(find_distinct_codes(ranges[piece], leaves, search, piece)):
            leaf = search.codes[i]
            # All terms of a leaf without text partitioning have one unit, so the first is enough.
            if plan.leaf_unit[leaf] >= 0:
                stop = start + 1
            else:
                stop = post_offsets[piece + 1]
            for t in range(start, stop):
                unit = leaf_owner(leaf, post_terms[t], plan)
                _count(unit, groups[position], seen_unit, of_unit)
                _count(unit_worker[unit], groups[position], seen_worker, of_worker)
    return of_unit, of_worker


@kernel
def _count(number: int, mark: int, seen: np.ndarray, counts: np.ndarray) -> None:
    """Add 1 to a count unless it was already increased under this mark."""
    if seen[number] != mark:
        seen[number] = mark
        counts[number] += 1
