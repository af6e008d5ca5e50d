"""List the frequent terms of the cells of a segment, by time slice, for counts of large regions.

A segment has SLICES slices of time with about as many objects each. A cell of the quadtree of codes, of an even level,
with LISTED_ROWS objects or more has a list for each slice: the terms that more than 1 in RARE of its objects have, with
their counts. The others have at most the bound of the list.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.questions.place_codes import LEVELS
from pststream.kernels.questions.term_tiers import terms_to_count
from pststream.kernels.search import find

SLICES = 16

LISTED_ROWS = 16_384
"""Cells with fewer objects have no lists: their rows are counted as fast."""

AHEAD = 64
"""Rows between one that is counted and one whose terms are fetched."""

RARE = 256
"""A term is listed if more than one in this many objects has it."""


class FrequentTerms(NamedTuple):
    """The lists of a segment: C cells, S slices.

    slice_times   int64[S+1]: slice s has the objects with slice_times[s] <= ts < slice_times[s + 1]; one time if
                  there are no lists
    cells         int64[C] ascending: level << 32 | the leading bits of the codes of the cell
    list_offsets  int32[C*S+1]: the lists of each cell
    list_bounds   int32[C*S]: no other term of this cell and slice has a greater count
    list_terms, list_counts  int32[]: numbers of terms within the segment, and their counts
    """

    slice_times: np.ndarray
    cells: np.ndarray
    list_offsets: np.ndarray
    list_bounds: np.ndarray
    list_terms: np.ndarray
    list_counts: np.ndarray


def list_frequent_terms(
    codes: np.ndarray, times: np.ndarray, offsets: np.ndarray, row_terms: np.ndarray, tiers: np.ndarray
) -> FrequentTerms:
    """Return the lists of a segment; see kernels/questions/question_arrays.py and term_tiers.py for the arrays.

    row_terms: int32[m], not packed
    """
    if len(codes) < LISTED_ROWS:
        empty = np.zeros(0, np.int32)
        return FrequentTerms(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(1, np.int32), empty, empty, empty)
    places = np.linspace(0, len(times), SLICES, endpoint=False).astype(np.int64)
    slice_times = np.append(np.partition(times, places)[places], times.max() + 1)
    slices = (np.searchsorted(slice_times[1:-1], times, "right")).astype(np.uint8)
    cells, ranges = cells_with_rows(codes, LISTED_ROWS)
    return FrequentTerms(slice_times, cells, *_list_terms(ranges, slices, SLICES, RARE, offsets, row_terms, tiers))


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
def _list_terms(ranges, slices, slice_count, rare, offsets, row_terms, tiers):
    """Return offsets, bounds, terms and counts of the lists; slices uint8[n]: the slice of each row."""
    lists = len(ranges) * slice_count
    list_offsets, bounds = np.zeros(lists + 1, np.int32), np.zeros(lists, np.int32)
    listed, total = np.empty((65_536, 2), np.int32), 0
    counts, touched = np.zeros(tiers[-1], np.int32), np.empty(tiers[-1] + 1, np.int32)
    for number in range(lists):
        wanted = number % slice_count
        low, high = ranges[number // slice_count]
        rows, size = 0, 0
        for row in range(low, high):
            rows += slices[row] == wanted
        kept, _ = terms_to_count(tiers, rows // rare)
        for row in range(low, high):
            if row + AHEAD < high and slices[row + AHEAD] == wanted:
                prefetch(row_terms, offsets[row + AHEAD])
            if slices[row] != wanted:
                continue
            for place in range(offsets[row], offsets[row + 1]):
                term = row_terms[place]
                if term >= kept:
                    continue
                touched[size] = term
                size += counts[term] == 0
                counts[term] += 1
        bounds[number] = rows // rare
        for at in range(size):
            term = touched[at]
            if counts[term] > bounds[number]:
                if total == len(listed):
                    longer = np.empty((2 * total, 2), np.int32)
                    longer[:total] = listed
                    listed = longer
                listed[total, 0], listed[total, 1] = term, counts[term]
                total += 1
            counts[term] = 0
        list_offsets[number + 1] = total
    return list_offsets, bounds, listed[:total, 0].copy(), listed[:total, 1].copy()
