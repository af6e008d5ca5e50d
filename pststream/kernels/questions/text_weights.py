"""Derive the arrays of a segment by which texts are scored under weights of words: squared lengths, short texts.

squares float32[n]        the squared length of each text: the sum of the squared weights of its words
floors float32[1]         texts below this squared length are short: an eighth of all
frequent int32[F]         the terms of FREQUENT objects or more, ascending
least_squares float32[F]  the least squared length among the objects of each of these terms
short_offsets int32[F+1], short_rows uint8[m,width]: the rows of the short texts of each of these terms, ascending
        (kernels/questions/packed_numbers.py)
cell_rows int32[4^l+1]    the first row of each cell of level l, and n
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.questions.packed_numbers import number_at
from pststream.kernels.questions.place_codes import LEVELS

FREQUENT = 256
"""A term of so many objects of a segment is frequent: it has a list of its short texts."""


class TextArrays(NamedTuple):
    """See the module's docstring."""

    squares: np.ndarray
    floors: np.ndarray
    frequent: np.ndarray
    least_squares: np.ndarray
    short_offsets: np.ndarray
    short_rows: np.ndarray
    cell_rows: np.ndarray


@kernel
def sum_squares(offsets: np.ndarray, row_terms: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sum of the squared weights of each text, rounded to float32: float32[n].

    offsets    int[n+1]      slice of `row_terms` of each text
    row_terms  int[]         its words
    weights    float32[]     the weight of each word
    """
    squares = np.empty(len(offsets) - 1, np.float32)
    for row in range(len(squares)):
        total = 0.0
        for place in range(offsets[row], offsets[row + 1]):
            weight = np.float64(weights[row_terms[place]])
            total += weight * weight
        squares[row] = np.float32(total)
    return squares


@kernel
def list_short_texts(
    posting_offsets: np.ndarray, postings: np.ndarray, squares: np.ndarray, floor: np.float32, frequent: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return least_squares, short_offsets and short_rows (int32[], not packed) of the frequent terms."""
    least, offsets = np.empty(len(frequent), np.float32), np.zeros(len(frequent) + 1, np.int32)
    rows, size = np.empty(1024, np.int32), 0
    for at in range(len(frequent)):
        low, high = posting_offsets[frequent[at]], posting_offsets[frequent[at] + 1]
        while size + high - low > len(rows):
            longer = np.empty(2 * len(rows), np.int32)
            longer[:size] = rows[:size]
            rows = longer
        lowest = np.float32(np.inf)
        for place in range(low, high):
            row = number_at(postings, place)
            lowest = min(lowest, squares[row])
            rows[size] = row
            size += squares[row] < floor
        least[at], offsets[at + 1] = lowest, size
    return least, offsets, rows[:size].copy()


@kernel
def first_row_of(codes: np.ndarray, cell_rows: np.ndarray, code: int) -> int:
    """Return the first row whose code is at least `code`, which is at most 4^LEVELS - 1."""
    shift = 2 * LEVELS
    cells = len(cell_rows) - 1
    while cells > 1:
        cells >>= 2
        shift -= 2
    cell = code >> shift
    low = cell_rows[cell]
    if code == cell << shift:
        return low
    size = cell_rows[cell + 1] - low
    while size > 1:
        half = size >> 1
        low += half * (codes[low + half - 1] < code)
        size -= half
    return low + (size == 1 and codes[low] < code)
