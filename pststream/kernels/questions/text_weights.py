"""Derive the arrays of a segment by which texts are scored under weights of words: squared lengths, short texts.

looks uint32[n,4]         what a search looks at first, side by side in memory: the code of the place; the squared
                          length of the text (the sum of the squared weights of its words) as the bits of a float32; a
                          filter of its words, 64 bits of which the lower half is first: `filter_bit` of each is set
floors float32[1]         texts below this squared length are short: an eighth of all
frequent int32[F]         the terms of FREQUENT objects or more, ascending
least_squares float32[F]  the least squared length among the objects of each of these terms
short_offsets int32[F+1], short_rows uint8[m,width]: the rows of the short texts of each of these terms, ascending
        (kernels/questions/packed_numbers.py)
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.questions.packed_numbers import number_at

FREQUENT = 256
"""A term of so many objects of a segment is frequent: it has a list of its short texts."""


class TextArrays(NamedTuple):
    """See the module's docstring."""

    looks: np.ndarray
    floors: np.ndarray
    frequent: np.ndarray
    least_squares: np.ndarray
    short_offsets: np.ndarray
    short_rows: np.ndarray


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
def filter_bit(term: int) -> int:
    """Return the bit of a term of a segment in the filters of its texts: 0 to 63."""
    return ((term * 2654435769) >> 26) & 63


@kernel
def make_looks(codes: np.ndarray, squares: np.ndarray, offsets: np.ndarray, row_terms: np.ndarray) -> np.ndarray:
    """Return `looks` of texts with these squared lengths: uint32[n,4].

    codes      uint32[n], squares float32[n]
    offsets    int[n+1]      slice of `row_terms` of each text
    row_terms  int[]         its words, numbered within the segment
    """
    looks = np.empty((len(codes), 4), np.uint32)
    lengths = looks.view(np.float32)
    for row in range(len(codes)):
        words = 0
        for place in range(offsets[row], offsets[row + 1]):
            words |= 1 << filter_bit(row_terms[place])
        looks[row, 0], looks[row, 2], looks[row, 3] = codes[row], words & 0xFFFFFFFF, (words >> 32) & 0xFFFFFFFF
        lengths[row, 1] = squares[row]
    return looks


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
