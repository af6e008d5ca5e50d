"""Load a block of a batch's objects: their points, and their terms as one segment numbers them.

The terms of a block are looked up together: each step computes the addresses that the next one reads and begins to
fetch them, so that the processor waits once for a block and not once for each term.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.matching.index_cells import fine_column, fine_row
from pststream.kernels.matching.postings import term_bit
from pststream.kernels.matching.term_table import find_value, slot_of, table_shift

OBJECTS = 256
"""Maximum number of objects of a block."""

TERMS = 4096
"""Number of terms of a block, unless its only object has more."""

_AHEAD = 32
"""Objects ahead whose first data are fetched."""

_TERMS_AHEAD = 256
"""Terms ahead whose slot is fetched: the slots of a whole block do not fit into the nearest cache."""


class Objects(NamedTuple):
    """Objects of a batch: `order` int64[n] and codes int64[n] (ascending) in Morton order, the others as they came.

    lon, lat float64[n]; ts int64[n]; term_offsets int64[n+1]; terms int64[m]; units int32[m].
    """

    order: np.ndarray
    codes: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    ts: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray
    units: np.ndarray


class Block(NamedTuple):
    """Objects of a block, in Morton order.

    lon, lat float64[OBJECTS]; ts, column, row int64[OBJECTS]: time-stamp, fine column and row; words uint64[OBJECTS]:
    mask of the terms (`postings.term_bit`); offsets int64[OBJECTS+1]: slice of the terms of each object.

    Of each term that the segment has: term int32[t]: its number; levels int64[t]: bit l is set if it is to be probed on
    level l; unit int32[t]. slots int64[t], ids int64[t] are scratch.
    """

    lon: np.ndarray
    lat: np.ndarray
    ts: np.ndarray
    column: np.ndarray
    row: np.ndarray
    words: np.ndarray
    offsets: np.ndarray
    term: np.ndarray
    levels: np.ndarray
    unit: np.ndarray
    slots: np.ndarray
    ids: np.ndarray


@kernel
def make_block(term_offsets):
    """Make an empty block for the objects with these offsets of terms."""
    longest = np.int64(TERMS)
    for i in range(len(term_offsets) - 1):
        longest = max(longest, term_offsets[i + 1] - term_offsets[i])
    size = OBJECTS
    return Block(
        np.empty(size), np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64),
        np.empty(size, np.uint64), np.empty(size + 1, np.int64), np.empty(longest, np.int32),
        np.empty(longest, np.int64), np.empty(longest, np.int32), np.empty(longest, np.int64),
        np.empty(longest, np.int64),
    )  # fmt: skip


@kernel
def _begin(objects, start, block):
    """Begin to fetch the terms of the objects from `start` on; return where the block ends."""
    order, _, lon, lat, ts, term_offsets, terms, units = objects
    stop, count, room = start, 0, len(block.term)
    while stop < len(order) and stop - start < OBJECTS:
        ahead = order[min(stop + _AHEAD, len(order) - 1)]
        prefetch(term_offsets, ahead)
        prefetch(lon, ahead)
        prefetch(lat, ahead)
        prefetch(ts, ahead)
        first, last = term_offsets[order[stop]], term_offsets[order[stop] + 1]
        count += last - first
        if count > room:
            break
        if first < last:
            prefetch(terms, first)
            prefetch(terms, last - 1)
            prefetch(units, first)
            prefetch(units, last - 1)
        stop += 1
    return stop


@kernel
def load_block(objects, start, term_table, block):
    """Load the objects from `start` on, as many as fit; return where the block ends."""
    order, _, lon, lat, ts, term_offsets, terms, units = objects
    block_term, levels, block_unit, slots, ids = block.term, block.levels, block.unit, block.slots, block.ids
    offsets, words, block_lon, block_lat, block_ts = block.offsets, block.words, block.lon, block.lat, block.ts
    column, row = block.column, block.row
    stop = _begin(objects, start, block)
    # Copy the objects, and compute the slots of their terms.
    shift, count = table_shift(term_table), 0
    for b in range(stop - start):
        i = order[start + b]
        block_lon[b], block_lat[b], block_ts[b] = lon[i], lat[i], ts[i]
        column[b], row[b] = fine_column(lon[i]), fine_row(lat[i])
        for j in range(term_offsets[i], term_offsets[i + 1]):
            slots[count], ids[count], block_unit[count] = slot_of(terms[j], shift), terms[j], units[j]
            count += 1
        offsets[b] = count
    # Replace the terms by their numbers; drop those that the segment does not have. Each is written, but only those
    # that are kept advance the place: there is no branch to mispredict.
    for t in range(min(count, _TERMS_AHEAD)):
        prefetch(term_table, slots[t])
    kept, first = 0, 0
    for b in range(stop - start):
        last, mask = offsets[b], np.uint64(0)
        offsets[b] = kept
        for t in range(first, last):
            prefetch(term_table, slots[min(t + _TERMS_AHEAD, count - 1)])
            value, unit = find_value(ids[t], slots[t], term_table), block_unit[t]
            block_term[kept], block_unit[kept] = value & 0xFFFFFFFF, unit
            levels[kept] = value >> 32 if unit >= 0 else 0
            known = value >= 0
            mask |= np.uint64(known) * term_bit(value)
            kept += known
        words[b], first = mask, last
    offsets[stop - start] = kept
    return stop
