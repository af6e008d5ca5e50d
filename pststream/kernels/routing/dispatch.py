"""Route under a plan: find the workers that store each piece of a subscription, and those each object is sent to.

A piece is one box of a subscription and the terms of the clause that it is posted under. It is stored at the owner of
each (raster cell, term) of its cells and terms. An object is sent to the owners of its live terms in its raster cell,
and probes each worker for the terms that this worker owns there. As each (raster cell, term) has one owner, an object
and a piece meet at exactly one worker for each term that they share.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.matching.index_cells import column_of, interleave, row_of
from pststream.kernels.matching.postings import LiveTerms, may_be_live, word_of
from pststream.kernels.routing.pyramid import Pyramid, find_distinct_codes, make_search
from pststream.kernels.sort_and_search import find, with_room

BLOCK = 64
"""Objects whose words of the filter are fetched together."""


class PlanArrays(NamedTuple):
    """The arrays of `plans.plan.PartitionPlan` as kernels take them; their shapes and dtypes are documented there."""

    cell_leaf: np.ndarray
    leaf_unit: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray
    term_unit: np.ndarray
    spread_offsets: np.ndarray
    spread_unit: np.ndarray
    unit_worker: np.ndarray


@leaf
def leaf_owner(leaf: int, term: int, plan: PlanArrays) -> int:
    """Return the unit that serves a term in a leaf: int32."""
    # A leaf without text partitioning has one unit.
    unit = plan.leaf_unit[leaf]
    if unit >= 0:
        return unit
    # Search for the term among those that the plan assigns.
    end = plan.term_offsets[leaf + 1]
    place = find(plan.terms, plan.term_offsets[leaf], end, term)
    if place < end and plan.terms[place] == term:
        return plan.term_unit[place]
    # Any other term goes, by its id, to one of the units that share the other terms.
    first = plan.spread_offsets[leaf]
    sharers = np.uint64(plan.spread_offsets[leaf + 1] - first)
    return plan.spread_unit[first + np.int64(np.uint64(term) % sharers)]


@kernel
def find_owner_units(
    cells: np.ndarray, object_offsets: np.ndarray, object_terms: np.ndarray, plan: PlanArrays, worker: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find the unit that serves each (object, term), and count the objects of each unit.

    cells   int64[objects]  raster cell of each object
    worker  the worker whose units are wanted; below 0: those of all workers
    Returns units int32[m], parallel to `object_terms` (CSR), -1 for units of other workers; and int64[units], the
    number of objects with a term of each unit.
    """
    cell_leaf, leaf_unit, unit_worker = plan.cell_leaf, plan.leaf_unit, plan.unit_worker
    units = np.empty(len(object_terms), np.int32)
    counts = np.zeros(len(unit_worker), np.int64)
    seen = np.full(len(unit_worker), -1, np.int64)
    for i in range(len(cells)):
        first, last = object_offsets[i], object_offsets[i + 1]
        leaf = cell_leaf[cells[i]]
        whole = leaf_unit[leaf]
        if whole >= 0:
            served = worker < 0 or unit_worker[whole] == worker
            units[first:last] = whole if served else -1
            counts[whole] += served and first < last
            continue
        for t in range(first, last):
            unit = leaf_owner(leaf, object_terms[t], plan)
            served = worker < 0 or unit_worker[unit] == worker
            units[t] = unit if served else -1
            if served and seen[unit] != i:
                seen[unit] = i
                counts[unit] += 1
    return units, counts


@kernel
def make_serving_codes(plan: PlanArrays, workers: int) -> np.ndarray:
    """Return the code of each raster cell: its worker, or workers + leaf if the leaf is partitioned by text; int32."""
    codes = np.empty(len(plan.cell_leaf), np.int32)
    for cell in range(len(codes)):
        leaf = plan.cell_leaf[cell]
        unit = plan.leaf_unit[leaf]
        codes[cell] = plan.unit_worker[unit] if unit >= 0 else workers + leaf
    return codes


@kernel
def _append_once(worker: int, mark: int, seen: np.ndarray, out: np.ndarray, size: int) -> int:
    """Append a worker that was not seen under this mark; return the new size."""
    if seen[worker] != mark:
        seen[worker] = mark
        out[size] = worker
        size += 1
    return size


@kernel
def find_piece_workers(
    ranges: np.ndarray,
    post_offsets: np.ndarray,
    post_terms: np.ndarray,
    plan: PlanArrays,
    codes: Pyramid,
    workers: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the workers that store each piece.

    ranges                    int32[n, 4]             first column, first row, last column, last row of each piece
    post_offsets, post_terms  int64[n+1], int64[m]    terms of each piece; a piece without any is stored nowhere
    codes                     pyramid over `make_serving_codes`
    Returns offsets int64[n+1], workers int32[k], ascending inside a piece.
    """
    unit_worker = plan.unit_worker
    offsets = np.zeros(len(ranges) + 1, np.int64)
    out = np.empty(len(ranges) + len(ranges) // 4 + workers, np.int32)
    seen = np.full(workers, -1, np.int64)
    search = make_search(codes)
    size = 0
    for piece in range(len(ranges)):
        first = size
        start, stop = post_offsets[piece], post_offsets[piece + 1]
        if start < stop:
            # Find the workers and the leaves by text that the box of the piece covers.
            out = with_room(out, size + workers)
            code_count = find_distinct_codes(ranges[piece], codes, search, piece)
            for i in range(code_count):
                code = search.codes[i]
                if code < workers:
                    size = _append_once(code, piece, seen, out, size)
                    continue
                # In a leaf by text, add the owner of each term, unless all workers are in the list.
                if size - first == workers:
                    break
                for t in range(start, stop):
                    unit = leaf_owner(code - workers, post_terms[t], plan)
                    size = _append_once(unit_worker[unit], piece, seen, out, size)
            # Leaves are found in no order, so the workers of the piece are sorted.
            if size - first > 1:
                out[first:size].sort()
        offsets[piece + 1] = size
    return offsets, out[:size].copy()


@kernel
def route(
    lon: np.ndarray,
    lat: np.ndarray,
    cells: np.ndarray,
    object_offsets: np.ndarray,
    object_terms: np.ndarray,
    live: LiveTerms,
    plan: PlanArrays,
    workers: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct workers that each object is sent to; an object without a live term is sent to none.

    lon, lat                      float64[n]             degrees
    cells                         int64[n]               raster cell of each object
    object_offsets, object_terms  int64[n+1], int64[m]   terms of each object
    Returns object int32[k], ascending, and worker int32[k], ascending inside an object.
    """
    cell_leaf, leaf_unit, unit_worker = plan.cell_leaf, plan.leaf_unit, plan.unit_worker
    words, levels = live
    objects = np.empty(len(cells) + BLOCK * workers, np.int32)
    out = np.empty_like(objects)
    seen = np.full(workers, -1, np.int64)
    codes = np.empty(BLOCK, np.int64)
    size = 0
    for begin in range(0, len(cells) if len(levels) else 0, BLOCK):
        # Fetch what the objects of a block need, and make room for all their workers.
        end = min(begin + BLOCK, len(cells))
        for i in range(begin, end):
            prefetch(cell_leaf, cells[i])
            codes[i - begin] = interleave(column_of(lon[i]), row_of(lat[i]))
            for t in range(object_offsets[i], object_offsets[i + 1]):
                prefetch(words, word_of(words, levels[0], codes[i - begin], object_terms[t]))
        if size + BLOCK * workers > len(out):
            objects, out = with_room(objects, size + BLOCK * workers), with_room(out, size + BLOCK * workers)
        for i in range(begin, end):
            # Add the owner of each live term. One term is enough if the leaf has one unit.
            first, leaf = size, cell_leaf[cells[i]]
            whole = leaf_unit[leaf]
            for t in range(object_offsets[i], object_offsets[i + 1]):
                if not may_be_live(words, levels, codes[i - begin], object_terms[t]):
                    continue
                unit = whole
                if whole < 0:
                    unit = leaf_owner(leaf, object_terms[t], plan)
                objects[size] = i
                size = _append_once(unit_worker[unit], i, seen, out, size)
                if whole >= 0 or size - first == workers:
                    break
            if size - first > 1:
                out[first:size].sort()
    return objects[:size].copy(), out[:size].copy()


@kernel
def mark_live_objects(
    lon: np.ndarray,
    lat: np.ndarray,
    object_offsets: np.ndarray,
    object_terms: np.ndarray,
    live: LiveTerms,
    is_live: np.ndarray,
) -> None:
    """Mark the objects with a term that may be live near their point.

    lon, lat                      float64[n]             degrees
    object_offsets, object_terms  int64[n+1], int64[m]   terms of each object
    is_live                       bool[n]                written
    """
    words, levels = live
    codes = np.empty(BLOCK, np.int64)
    for begin in range(0, len(lon), BLOCK):
        end = min(begin + BLOCK, len(lon))
        for i in range(begin, end):
            codes[i - begin] = interleave(column_of(lon[i]), row_of(lat[i]))
            if len(levels):
                for t in range(object_offsets[i], object_offsets[i + 1]):
                    prefetch(words, word_of(words, levels[0], codes[i - begin], object_terms[t]))
        for i in range(begin, end):
            is_live[i] = False
            for t in range(object_offsets[i], object_offsets[i + 1]):
                if may_be_live(words, levels, codes[i - begin], object_terms[t]):
                    is_live[i] = True
                    break


@kernel
def group_by_worker(objects: np.ndarray, worker: np.ndarray, workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Group the result of `route`: return int32[k], the objects of each worker, and int64[workers+1], their slices."""
    slices = np.zeros(workers + 1, np.int64)
    for number in worker:
        slices[number + 1] += 1
    slices = np.cumsum(slices)
    following, grouped = slices.copy(), np.empty(len(objects), np.int32)
    for k in range(len(objects)):
        grouped[following[worker[k]]] = objects[k]
        following[worker[k]] += 1
    return grouped, slices
