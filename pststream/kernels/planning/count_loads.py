"""Counting what a plan sends to each unit and worker, and which objects have a live term."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.build_segment import look_up
from pststream.kernels.routing.dispatch import PlanArrays, leaf_owner
from pststream.kernels.routing.pyramid import Pyramid, distinct_codes, new_search


@kernel
def term_places(terms: np.ndarray, slots: np.ndarray, places: np.ndarray, bits: int) -> np.ndarray:
    """The place of each term (int64[n]) in what `kernels.segment.hash_table` was made of, or -1: int32[n]."""
    found = np.empty(len(terms), np.int32)
    for t in range(len(terms)):
        found[t] = look_up(terms[t], slots, places, bits)
    return found


@kernel
def place_terms(
    rows: np.ndarray, offsets: np.ndarray, terms: np.ndarray, slots: np.ndarray, places: np.ndarray, bits: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places in the hash table of the live terms of each of `rows` of a CSR, and where these stand in `terms`:
    int64[len(rows)+1], int32[n], int64[n].
    """
    start = np.zeros(len(rows) + 1, np.int64)
    found = np.empty(len(terms), np.int32)
    origin = np.empty(len(terms), np.int64)
    size = 0
    for i in range(len(rows)):
        for t in range(offsets[rows[i]], offsets[rows[i] + 1]):
            place = look_up(terms[t], slots, places, bits)
            if place >= 0:
                found[size] = place
                origin[size] = t
                size += 1
        start[i + 1] = size
    return start, found[:size].copy(), origin[:size].copy()


@kernel
def live_objects(term_offsets: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Whether each object has a live term: bool[objects]."""
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
    """Objects that probe each unit and each worker, and postings that are read for each unit: int64[units],
    int64[workers], int64[units].

    reads  int32[len(object_terms)]  postings that each (object, term) reads
    The other arguments as in `dispatch.route`.
    """
    cell_leaf, leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit, unit_worker = plan
    of_unit = np.zeros(len(unit_worker), np.int64)
    of_worker = np.zeros(workers, np.int64)
    read = np.zeros(len(unit_worker), np.int64)
    seen_unit = np.full(len(of_unit), -1, np.int64)
    seen_worker = np.full(workers, -1, np.int64)
    for i in range(len(cells)):
        leaf = cell_leaf[cells[i]]
        for t in range(object_offsets[i], object_offsets[i + 1]):
            if live[t]:
                unit = leaf_owner(
                    leaf, object_terms[t], leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit
                )
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
    """Subscriptions that each unit and each worker stores: int64[units], int64[workers].

    ranges, post_offsets, post_terms  as in `dispatch.piece_workers`
    order, groups                     int64[n]   pieces, those of a subscription side by side, and the subscription
                                                 of each of these, from 0 and ascending
    leaves                            pyramid over the leaf of each cell
    """
    _, leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit, unit_worker = plan
    of_unit = np.zeros(len(unit_worker), np.int64)
    of_worker = np.zeros(workers, np.int64)
    seen_unit = np.full(len(of_unit), -1, np.int64)
    seen_worker = np.full(workers, -1, np.int64)
    search = new_search(leaves)
    for place in range(len(order)):
        piece = order[place]
        start, stop = post_offsets[piece], post_offsets[piece + 1]
        if start == stop:
            continue
        for i in range(distinct_codes(ranges[piece], leaves, search, piece)):
            leaf = search.found[i]
            if leaf_unit[leaf] >= 0:
                stop = start + 1
            else:
                stop = post_offsets[piece + 1]
            for t in range(start, stop):
                unit = leaf_owner(
                    leaf, post_terms[t], leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit
                )
                _count(unit, groups[place], seen_unit, of_unit)
                _count(unit_worker[unit], groups[place], seen_worker, of_worker)
    return of_unit, of_worker


@kernel
def count_units(offsets: np.ndarray, units: np.ndarray, counts: np.ndarray) -> None:
    """Add 1 to each unit (int64[units]) for each object that has it among its terms' units (int32[m]; -1: none)."""
    seen = np.full(len(counts), -1, np.int64)
    for i in range(len(offsets) - 1):
        for t in range(offsets[i], offsets[i + 1]):
            if units[t] >= 0:
                _count(units[t], i, seen, counts)


@kernel
def _count(place: int, mark: int, seen: np.ndarray, counts: np.ndarray) -> None:
    if seen[place] != mark:
        seen[place] = mark
        counts[place] += 1
