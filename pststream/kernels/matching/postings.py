"""Encode a posting in 16 bytes, and a point so that one subtraction tests whether it lies in the box of a posting.

A posting is a row of uint64[P,2]:

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

import numpy as np

from pststream.kernels.compile import inlined, kernel
from pststream.kernels.matching.index_cells import MAX_LEVEL, fine_column, fine_row

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
