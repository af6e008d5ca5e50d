"""Encode postings and the keys that find them, look terms up in hash tables, and filter live terms.

A posting is a row of uint64[P,2]; one subtraction tests whether a point, encoded likewise, lies in its box:

    column 0   four lanes of 16 bits: the west, south, east and north sides of its box, clipped to its index cell
    column 1   bits 0-30: its piece; bit 31 (SEVERAL_CLAUSES): the piece has more than one clause;
               bits 32-63: a mask of words (`term_bit`)

The mask of a piece with several clauses has the words that an object must have: those of its clauses of one word,
without the clause that it is posted under. The mask of a piece with one clause has the words before the posting's own
in this clause: if the object has one of them, another posting stands for the pair. Two words may have the same bit, so
a mask can only exclude what certainly does not match, or confirm what certainly does; literals decide the rest.

Sides and points count steps of 2^-14 of the width of the index cell, from 1; a side outside of the cell is 0 or 32767.
A point on the same step as a side may lie on either side of it: the exact box decides.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import inlined, kernel
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.matching.index_cells import MAX_LEVEL, fine_column, fine_row
from pststream.kernels.sort_and_search import find

SEVERAL_CLAUSES = np.uint64(1 << 31)
PIECE_BITS = np.uint64((1 << 31) - 1)

TERM_BITS = 26
"""A term of a segment has a number below 2^TERM_BITS."""

TERM = (1 << TERM_BITS) - 1
"""The term of a literal."""

LAST_OF_CLAUSE = 1 << 29
"""Marks the last literal of a clause."""

LAST_OF_PIECE = 1 << 30
"""Marks the last literal of a piece."""

GUARDS = np.uint64(0x8000800080008000)
ONES = np.uint64(0x0001000100010001)
_OUTSIDE = 0x7FFF


@inlined
def term_bit(term):
    """The bit of a term in a mask of words (uint64, of 32 bits)."""
    return np.uint64(1) << np.uint64(term & 31)


@inlined
def encode_point(column, row, level):
    """Return the lanes of a point in its index cell of a level, from its fine column and row, with GUARDS set.

    A point lies in the box of a posting if the lanes less the box keep all GUARDS; it lies within, on no step of a
    side, if the lanes less the box and ONES do.
    """
    shift = MAX_LEVEL + 1 - level
    x, y = ((column >> shift) & 0x3FFF) + 1, ((row >> shift) & 0x3FFF) + 1
    lanes = x | (y << 16) | ((_OUTSIDE - x) << 32) | ((_OUTSIDE - y) << 48)
    return np.uint64(lanes) | GUARDS


@kernel
def _encode_side(fine, start, shift):
    """The step of a side (its fine column or row) in a cell that begins at `start`; 0 or 32767: outside of the cell."""
    if fine < start:
        return 0
    return min(((fine - start) >> shift) + 1, _OUTSIDE) if (fine - start) >> (shift + 14) == 0 else _OUTSIDE


@kernel
def encode_box(box, cell_column, cell_row, level):
    """Return the lanes of a box (west, south, east, north in degrees) in an index cell of a level (uint64)."""
    shift = MAX_LEVEL + 1 - level
    x, y = cell_column << (shift + 14), cell_row << (shift + 14)
    west, east = _encode_side(fine_column(box[0]), x, shift), _encode_side(fine_column(box[2]), x, shift)
    south, north = _encode_side(fine_row(box[1]), y, shift), _encode_side(fine_row(box[3]), y, shift)
    return np.uint64(west | (south << 16) | ((_OUTSIDE - east) << 32) | ((_OUTSIDE - north) << 48))


@kernel
def words_of_piece(literals, place, own):
    """Return the upper part of column 1 for the posting of term `own`: SEVERAL_CLAUSES or 0, and the mask of words.

    place: the first literal of the piece
    """
    earlier, met = np.uint64(0), False
    while True:
        literal = literals[place]
        met = met or (literal & TERM) == own
        if not met:
            earlier |= term_bit(literal & TERM)
        if literal & LAST_OF_CLAUSE:
            break
        place += 1
    if literal & LAST_OF_PIECE:
        return earlier << np.uint64(32)
    required, first = np.uint64(0), True
    while not literal & LAST_OF_PIECE:
        place += 1
        literal = literals[place]
        if first and literal & LAST_OF_CLAUSE:
            required |= term_bit(literal & TERM)
        first = literal & LAST_OF_CLAUSE != 0
    return SEVERAL_CLAUSES | (required << np.uint64(32))


# Keys of posting lists: pairs of an index cell and a term, in buckets of 64 bits.

LOW = np.uint64(0xFFFFFFFF)
"""Mask of the low 32 bits of `buckets[b, 1]`: the first key."""

HIGH = np.uint64(32)
"""Shift to its high 32 bits: the first posting."""


@kernel
def spot_scale(terms):
    """The factor that scales the number of a term, of `terms` terms, to a spot in [0, 2^32)."""
    return (np.int64(1) << 32) // max(terms, 1)


@kernel
def place_bits(terms):
    """Bits of a key that are left for the place of its first posting, if a segment has `terms` terms (at most 2^26)."""
    bits = 0
    while (1 << bits) < terms:
        bits += 1
    return min(32 - bits, 31)


@kernel
def cell_buckets(cell_keys):
    """Return the first bucket of each cell with its shift from a spot to a bit, and the number of buckets.

    A cell has a power of two of buckets of 64 bits, 8 to 16 bits for each key. Its number is first bucket << 6 | shift
    (int64[C]).
    """
    starts = np.empty(len(cell_keys) - 1, np.int64)
    total = 0
    for c in range(len(cell_keys) - 1):
        words, shift = 1, 26
        while words * 8 < cell_keys[c + 1] - cell_keys[c]:
            words *= 2
            shift -= 1
        starts[c] = (total << 6) | shift
        total += words
    return starts, total


@kernel
def fill_buckets(cell_keys, key_term, key_postings, starts, total, terms):
    """Return the buckets of all cells (uint64[B+1,2]); the last row has the number of keys and of postings.

    A bucket has a bit for each key of a range of terms in a cell, and its first key | its first posting << 32.
    """
    buckets = np.zeros((total + 1, 2), np.uint64)
    scale = spot_scale(terms)
    for c in range(len(cell_keys) - 1):
        # The keys of the cell, in the order of their terms.
        first, shift = starts[c] >> 6, starts[c] & 63
        bucket = first
        buckets[bucket, 1] = cell_keys[c]
        for k in range(cell_keys[c], cell_keys[c + 1]):
            place = (key_term[k] * scale) >> shift
            while bucket < first + (place >> 6):
                bucket += 1
                buckets[bucket, 1] = k
            buckets[bucket, 0] |= np.uint64(1) << np.uint64(place & 63)
        # The remaining buckets of the cell are empty.
        last = starts[c + 1] >> 6 if c + 1 < len(starts) else total
        for rest in range(bucket + 1, last):
            buckets[rest, 1] = cell_keys[c + 1]
    buckets[total, 1] = len(key_term)
    for bucket in range(total + 1):
        buckets[bucket, 1] |= np.uint64(key_postings[np.int64(buckets[bucket, 1])]) << HIGH
    return buckets


@kernel
def encode_keys(key_term, key_postings, buckets, terms):
    """Return the keys (uint32[K]), and those whose place does not fit (int64[F]).

    A key has its term in the upper bits, as many as the terms of the segment need, and below them the place of its
    first posting in the bucket, or the greatest number if that does not fit.
    """
    keys = np.empty(len(key_term), np.uint32)
    far = np.empty(len(key_term), np.int64)
    bits, count = place_bits(terms), 0
    greatest = (np.int64(1) << bits) - 1
    for bucket in range(len(buckets) - 1):
        base = np.int64(buckets[bucket, 1] >> HIGH)
        for k in range(np.int64(buckets[bucket, 1] & LOW), np.int64(buckets[bucket + 1, 1] & LOW)):
            place = min(key_postings[k] - base, greatest)
            keys[k] = (np.int64(key_term[k]) << bits) | place
            far[count] = k
            count += place == greatest
    return keys, far[:count].copy()


@kernel
def find_far_posting(key, far_keys, far_postings):
    """The first posting of a key whose place does not fit."""
    return far_postings[find(far_keys, 0, len(far_keys), key)]


# Hash tables of terms, with open addressing: int64[2^b,2], a term id and its value (-1: a free slot).

_AHEAD = 32
"""Terms whose slots are fetched early."""


@kernel
def make_term_table(terms, values):
    """Return a table of distinct `terms` (int64[n]) with their `values` (int64[n]); at most half of it is used."""
    size = 8
    while size < 2 * len(terms):
        size *= 2
    table = np.full((size, 2), -1, np.int64)
    shift = table_shift(table)
    for t in range(len(terms)):
        slot = slot_of(terms[t], shift)
        while table[slot, 1] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot, 0] = terms[t]
        table[slot, 1] = values[t]
    return table


@kernel
def table_shift(table):
    """Bits by which a mixed term id is shifted to its slot."""
    bits = 0
    while (1 << bits) < len(table):
        bits += 1
    return 64 - bits


@kernel
def slot_of(term, shift):
    """Home slot of a term id (the ids are hashes already; multiply to use their high bits)."""
    return np.int64((np.uint64(term) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))


@kernel
def find_value(term, slot, table):
    """Value of a term id whose home slot is `slot`, or -1."""
    while table[slot, 1] >= 0:
        if table[slot, 0] == term:
            return table[slot, 1]
        slot = (slot + 1) & (len(table) - 1)
    return np.int64(-1)


@kernel
def look_up(term, table):
    """Value of a term id, or -1."""
    return find_value(term, slot_of(term, table_shift(table)), table)


@kernel
def find_values(terms, table):
    """Return the value of each of `terms` (int64[n], any), or -1: int64[n]."""
    shift = table_shift(table)
    slots, values = np.empty(len(terms), np.int64), np.empty(len(terms), np.int64)
    for place in range(len(terms)):
        slots[place] = slot_of(terms[place], shift)
    for place in range(len(terms)):
        if place + _AHEAD < len(terms):
            prefetch(table, slots[place + _AHEAD])
        values[place] = find_value(terms[place], slots[place], table)
    return values


# Bloom filter of live terms, by which routing drops the other terms (`matching/matcher.py`).

LIVE_LEVEL = 9
"""An index cell of a finer level is replaced by its ancestor of this level (0.7 degrees wide)."""


class LiveTerms(NamedTuple):
    """A filter: words uint64[2^k]; levels int64[]: levels in use, capped at LIVE_LEVEL.

    A pair of an index cell and a term under which a subscription is posted there sets three bits of one word. Source:
    map H2 of PS2Stream section IV-C.
    """

    words: np.ndarray
    levels: np.ndarray


@kernel
def _mixed(cell, term):
    """A 64-bit hash of a pair."""
    value = np.uint64(term) ^ (np.uint64(cell) * np.uint64(0x9E3779B97F4A7C15))
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    return value ^ (value >> np.uint64(32))


@kernel
def _bits_of(value):
    """The three bits of a word that a hash sets."""
    one = np.uint64(1)
    six = np.uint64(63)
    return (one << (value & six)) | (one << ((value >> np.uint64(6)) & six)) | (one << ((value >> np.uint64(12)) & six))


@kernel
def add_keys(words, cells, cell_buckets, buckets, keys, terms):
    """Add every (cell, term) of a segment (`matching/segments.py`) to the filter (uint64[2^k])."""
    last = np.uint64(len(words) - 1)
    bits = place_bits(len(terms))
    for c in range(len(cells)):
        cell = cells[c]
        while cell >= (1 << (2 * LIVE_LEVEL + 1)):
            cell >>= 2
        end = cell_buckets[c + 1] >> 6 if c + 1 < len(cells) else len(buckets) - 1
        for k in range(np.int64(buckets[cell_buckets[c] >> 6, 1] & LOW), np.int64(buckets[end, 1] & LOW)):
            value = _mixed(cell, terms[np.int64(keys[k]) >> bits])
            words[(value >> np.uint64(20)) & last] |= _bits_of(value)


@inlined
def word_of(words, level, code, term):
    """The place of the word for a term in the index cell of a level around a point with this Morton number."""
    cell = (1 << (2 * level)) | (code >> (2 * (MAX_LEVEL - level)))
    return np.int64((_mixed(cell, term) >> np.uint64(20)) & np.uint64(len(words) - 1))


@inlined
def may_be_live(words, levels, code, term):
    """Whether a subscription near a point with this Morton number may be posted under a term.

    Never false for a live term; true for 4% of other terms at most, mostly for less than 1%.
    """
    live = False
    for level in levels:
        value = _mixed((1 << (2 * level)) | (code >> (2 * (MAX_LEVEL - level))), term)
        bits = _bits_of(value)
        if words[(value >> np.uint64(20)) & np.uint64(len(words) - 1)] & bits == bits:
            live = True
            break
    return live
