"""Divide the terms of a segment into tiers, and list the frequent terms of its cells, by slices of time.

The time of a segment is divided into 1, 4 and 16 slices with about as many objects each. A cell of the quadtree of
codes, of an even level, has lists for the slices of a division if these have LISTED_ROWS objects or more on average:
for each slice, the terms that more than 1 in RARE of its objects have, with their counts. The others have at most the
bound of the list.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.questions.codes import LEVELS
from pststream.kernels.sort_and_search import find, with_room

# Tiers of terms by their number of objects: those of many come first, so their counts lie close together in memory.

LEAST_OBJECTS = (2048, 512, 128, 32, 8)
"""Objects that each term of a tier has at least; one more tier has the other terms."""


@kernel
def terms_to_count(tiers, rare):
    """Return the number of terms to count, and the greatest number of objects that another term has: at most `rare`.

    tiers  int64[t+1]: tier i has the terms from tiers[i] up to tiers[i + 1]
    """
    for tier in range(len(LEAST_OBJECTS)):
        if LEAST_OBJECTS[tier] - 1 <= rare:
            return tiers[tier + 1], LEAST_OBJECTS[tier] - 1
    return tiers[-1], 0


DIVISIONS = (1, 4, 16)
"""Slices of each division; each slice is divided evenly by the next division."""

SLICES = DIVISIONS[-1]

LISTED_ROWS = 256
"""Slices of a cell with fewer objects on average have no lists: their rows are counted as fast."""

AHEAD = 64
"""Rows between one that is counted and one whose terms are fetched."""

RARE = 128
"""A term is listed if more than one in this many objects has it."""

DIVISION_SHIFT = 40
"""Place of the number of the division in the number of a cell with lists."""


class FrequentTerms(NamedTuple):
    """The lists of a segment: D divisions, S slices of the last one, C cells with lists of some division, L lists.

    slice_times   int64[S+1]: slice s has the objects with slice_times[s] <= ts < slice_times[s + 1]; one time if
                  there are no lists
    listed_rows   int64[D]: objects that a cell with lists of each division has at least
    cells         int64[C] ascending: division << 40 | level << 32 | the leading bits of the codes of the cell
    cell_lists    int32[C+1]: the lists of each cell, by slice
    list_offsets  int32[L+1]: the terms of each list
    list_bounds   int32[L]: no other term of this cell and slice has a greater count
    list_terms, list_counts  int32[]: numbers of terms within the segment, and their counts
    """

    slice_times: np.ndarray
    listed_rows: np.ndarray
    cells: np.ndarray
    cell_lists: np.ndarray
    list_offsets: np.ndarray
    list_bounds: np.ndarray
    list_terms: np.ndarray
    list_counts: np.ndarray


def list_frequent_terms(
    codes: np.ndarray, times: np.ndarray, offsets: np.ndarray, row_terms: np.ndarray, tiers: np.ndarray
) -> FrequentTerms:
    """Return the lists of a segment; see kernels/questions/question_arrays.py and `terms_to_count`.

    row_terms: int32[m], not packed
    """
    listed_rows = LISTED_ROWS * np.array(DIVISIONS, np.int64)
    if len(codes) < LISTED_ROWS:
        none, zero = np.zeros(0, np.int32), np.zeros(1, np.int32)
        return FrequentTerms(np.zeros(1, np.int64), listed_rows, np.zeros(0, np.int64), zero, zero, none, none, none)
    places = np.linspace(0, len(times), SLICES, endpoint=False).astype(np.int64)
    slice_times = np.append(np.partition(times, places)[places], times.max() + 1)
    slices = (np.searchsorted(slice_times[1:-1], times, "right")).astype(np.uint8)
    cells, lists_of_cells, ends, lists = [], [], [0], []
    for division, parts in enumerate(DIVISIONS):
        listed, ranges = cells_with_rows(codes, LISTED_ROWS * parts)
        cells.append(division << DIVISION_SHIFT | listed)
        lists_of_cells.append(np.full(len(listed), parts))
        lists.append(_list_terms(ranges, slices // (SLICES // parts), parts, RARE, offsets, row_terms, tiers))
        ends.append(ends[-1] + len(lists[-1][2]))
    sizes, bounds, terms, counts = (np.concatenate(arrays) for arrays in zip(*lists))
    return FrequentTerms(
        slice_times, listed_rows, np.concatenate(cells),
        np.append(0, np.cumsum(np.concatenate(lists_of_cells))).astype(np.int32),
        np.append(0, np.cumsum(sizes)).astype(np.int32), bounds, terms, counts,
    )  # fmt: skip


@kernel
def cells_with_rows(codes: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells of even levels from 2 on with at least this many rows, and their ranges of rows.

    codes uint32[n] ascending; returns int64[C] ascending and int64[C,2]
    """
    most = (LEVELS // 2) * (len(codes) // least)
    cells, ranges = np.empty(most, np.int64), np.empty((most, 2), np.int64)
    begin, stop, size = 0, 0, 0
    for level in range(2, LEVELS + 1, 2):
        shift = 2 * (LEVELS - level)
        for parent in range(begin, stop) if level > 2 else range(-1, 0):
            low, last = (0, len(codes)) if parent < 0 else (ranges[parent, 0], ranges[parent, 1])
            first = 0 if parent < 0 else (cells[parent] & 0xFFFFFFFF) << 4
            for child in range(first, first + 16):
                high = find(codes, low, last, (child + 1) << shift)
                if high - low >= least:
                    cells[size], ranges[size, 0], ranges[size, 1] = level << 32 | child, low, high
                    size += 1
                low = high
        begin, stop = stop, size
    return cells[:size].copy(), ranges[:size].copy()


@kernel
def _list_terms(ranges, slices, parts, rare, offsets, row_terms, tiers):
    """Return sizes, bounds, terms and counts of the lists of a division.

    ranges int64[C,2]: the rows of each cell; slices uint8[n]: the slice of each row, of as many as `parts`
    """
    sizes, bounds = np.zeros(len(ranges) * parts, np.int32), np.zeros(len(ranges) * parts, np.int32)
    listed, total = np.empty((65_536, 2), np.int32), 0
    counts, touched = np.zeros(tiers[-1] + 1, np.int32), np.empty(tiers[-1] + 1, np.int32)
    order, ends = np.empty(len(slices), np.int32), np.empty(parts, np.int64)
    for cell in range(len(ranges)):
        _order_by_slice(slices, ranges[cell, 0], ranges[cell, 1], order, ends)
        for part in range(parts):
            low, high = ends[part - 1] if part else 0, ends[part]
            bound = (high - low) // rare
            kept, _ = terms_to_count(tiers, bound)
            size = 0
            # The place after the terms to count has the count of all others.
            counts[kept] = 1
            for at in range(low, high):
                if at + AHEAD < high:
                    prefetch(row_terms, offsets[order[at + AHEAD]])
                for place in range(offsets[order[at]], offsets[order[at] + 1]):
                    term = min(row_terms[place], kept)
                    touched[size] = term
                    size += counts[term] == 0
                    counts[term] += 1
            counts[kept] = 0
            begin = total
            listed = with_room(listed, total + size)
            for term in touched[:size]:
                if counts[term] > bound:
                    listed[total, 0], listed[total, 1] = term, counts[term]
                    total += 1
                counts[term] = 0
            sizes[cell * parts + part], bounds[cell * parts + part] = total - begin, bound
    return sizes, bounds, listed[:total, 0].copy(), listed[:total, 1].copy()


@kernel
def _order_by_slice(slices, low, high, order, ends):
    """Write the rows [low, high) to `order` slice by slice, ascending in each, and where each slice ends to `ends`."""
    ends[:] = 0
    for row in range(low, high):
        ends[slices[row]] += 1
    total = 0
    for part in range(len(ends)):
        total, ends[part] = total + ends[part], total
    for row in range(low, high):
        order[ends[slices[row]]] = row
        ends[slices[row]] += 1
