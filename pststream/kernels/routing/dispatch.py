"""Dispatch: who serves a (cell, term), which workers store a piece, which workers an object goes to.

A piece is a box and the terms of the clause it is posted under. It is stored at the owner of each (cell, term) of its
cells and terms; an object probes a worker for those of its terms that the worker owns in the object's cell. As a
(cell, term) has one owner, each pair meets at one worker for each term it shares.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.routing.pyramid import Pyramid, distinct_codes, new_search


class PlanArrays(NamedTuple):
    """The arrays of `domain.plan.PartitionPlan`, which gives their shapes, as kernels take them.

    Hot loops read them from plain names: each use of a tuple's array counts its references, by atomic operations.
    """

    cell_leaf: np.ndarray
    leaf_unit: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray
    term_unit: np.ndarray
    spread_offsets: np.ndarray
    spread_unit: np.ndarray
    unit_worker: np.ndarray


@kernel
def leaf_owner(
    leaf: int,
    term: int,
    leaf_unit: np.ndarray,
    term_offsets: np.ndarray,
    terms: np.ndarray,
    term_unit: np.ndarray,
    spread_offsets: np.ndarray,
    spread_unit: np.ndarray,
) -> int:
    """The unit that serves a term in a leaf: int32. The arrays are those of PlanArrays."""
    unit = leaf_unit[leaf]
    if unit >= 0:
        return unit
    low = term_offsets[leaf]
    end = term_offsets[leaf + 1]
    high = end
    while low < high:
        middle = (low + high) >> 1
        if terms[middle] < term:
            low = middle + 1
        else:
            high = middle
    if low < end and terms[low] == term:
        return term_unit[low]
    first = spread_offsets[leaf]
    sharers = np.uint64(spread_offsets[leaf + 1] - first)
    return spread_unit[first + np.int64(np.uint64(term) % sharers)]


@kernel
def owner_units(
    cells: np.ndarray, object_offsets: np.ndarray, object_terms: np.ndarray, plan: PlanArrays
) -> np.ndarray:
    """The unit of each (object, term): int32, parallel to `object_terms` (CSR); `cells` int64[objects]."""
    cell_leaf, leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit, _ = plan
    units = np.empty(len(object_terms), np.int32)
    for i in range(len(cells)):
        leaf = cell_leaf[cells[i]]
        whole = leaf_unit[leaf]
        for t in range(object_offsets[i], object_offsets[i + 1]):
            if whole >= 0:
                units[t] = whole
            else:
                units[t] = leaf_owner(
                    leaf, object_terms[t], leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit
                )
    return units


@kernel
def serving_codes(plan: PlanArrays, workers: int) -> np.ndarray:
    """Who serves each cell: its worker, or workers + leaf where the leaf is partitioned by text; int32[cells]."""
    codes = np.empty(len(plan.cell_leaf), np.int32)
    for cell in range(len(codes)):
        leaf = plan.cell_leaf[cell]
        unit = plan.leaf_unit[leaf]
        codes[cell] = plan.unit_worker[unit] if unit >= 0 else workers + leaf
    return codes


@kernel
def reserve(array: np.ndarray, needed: int) -> np.ndarray:
    """`array`, or a longer copy if it has less than `needed` places."""
    if needed <= len(array):
        return array
    longer = np.empty(max(needed, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer


@kernel
def _note(worker: int, mark: int, seen: np.ndarray, out: np.ndarray, size: int) -> int:
    """Append a worker that was not seen under this mark; returns the new size."""
    if seen[worker] != mark:
        seen[worker] = mark
        out[size] = worker
        size += 1
    return size


@kernel
def piece_workers(
    ranges: np.ndarray,
    post_offsets: np.ndarray,
    post_terms: np.ndarray,
    plan: PlanArrays,
    codes: Pyramid,
    workers: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The workers that store each piece.

    ranges                    int32[n, 4]             first column, first row, last column, last row of each piece
    post_offsets, post_terms  int64[n+1], int64[m]    terms of each piece; a piece without any is stored nowhere
    codes                     pyramid over `serving_codes`
    Returns offsets int64[n+1], workers int32[k], ascending inside a piece.
    """
    _, leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit, unit_worker = plan
    offsets = np.zeros(len(ranges) + 1, np.int64)
    out = np.empty(len(ranges) + len(ranges) // 4 + workers, np.int32)
    seen = np.full(workers, -1, np.int64)
    search = new_search(codes)
    size = 0
    for piece in range(len(ranges)):
        first = size
        start, stop = post_offsets[piece], post_offsets[piece + 1]
        if start < stop:
            out = reserve(out, size + workers)
            found = distinct_codes(ranges[piece], codes, search, piece)
            for i in range(found):
                code = search.found[i]
                if code < workers:
                    size = _note(code, piece, seen, out, size)
                    continue
                if size - first == workers:
                    break
                for t in range(start, stop):
                    unit = leaf_owner(
                        code - workers, post_terms[t],
                        leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit,
                    )  # fmt: skip
                    size = _note(unit_worker[unit], piece, seen, out, size)
            if size - first > 1:
                out[first:size].sort()
        offsets[piece + 1] = size
    return offsets, out[:size].copy()


@kernel
def route(
    cells: np.ndarray,
    object_offsets: np.ndarray,
    object_terms: np.ndarray,
    live: np.ndarray,
    plan: PlanArrays,
    workers: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct workers that each object goes to; an object without a live term goes nowhere.

    cells                         int64[n]
    object_offsets, object_terms  int64[n+1], int64[m]
    live                          bool[m]    whether some subscription is posted under that term
    Returns object int32[k] ascending, worker int32[k] ascending inside an object.
    """
    cell_leaf, leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit, unit_worker = plan
    objects = np.empty(len(cells) + workers, np.int32)
    out = np.empty(len(cells) + workers, np.int32)
    seen = np.full(workers, -1, np.int64)
    size = 0
    for i in range(len(cells)):
        first = size
        leaf = cell_leaf[cells[i]]
        out = reserve(out, size + workers)
        for t in range(object_offsets[i], object_offsets[i + 1]):
            if live[t]:
                unit = leaf_owner(
                    leaf, object_terms[t], leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit
                )
                size = _note(unit_worker[unit], i, seen, out, size)
                if leaf_unit[leaf] >= 0 or size - first == workers:
                    break
        if size - first > 1:
            out[first:size].sort()
        objects = reserve(objects, size)
        objects[first:size] = i
    return objects[:size].copy(), out[:size].copy()
