"""Compute and bound the score of an object for a point and words, in one way for questions and subscriptions.

A score is alpha * max(0, 1 - distance / scale) + (1 - alpha) * cosine, compared as float32. The cosine is the sum of
the squared weights of the shared words, divided by the product of the lengths of both vectors.
"""

import math
from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.contains_point import EARTH_RADIUS_M, haversine, metres_of
from pststream.kernels.questions.codes import column_of_code, number_at, row_of_code
from pststream.kernels.sort_and_search import with_room


@kernel
def place_score(lon: float, lat: float, object_lon: float, object_lat: float, alpha: float, scale: float) -> float:
    """Return the part of the score that the place of an object gives; the place asked for comes first."""
    return alpha * max(0.0, 1.0 - metres_of(haversine(lon, lat, object_lon, object_lat)) / scale)


@kernel
def cosine_of(shared: float, square: np.float32, object_square: np.float32) -> float:
    """Return the cosine of two vectors: the sum of the squares of what they share, and the squared length of each."""
    return shared / math.sqrt(np.float64(square) * np.float64(object_square))


# Upper bounds of scores without trigonometry, for callers that leave a margin: sines and cosines are the beginnings of
# their series that end with a subtraction, and so are never too great.

DEGREE = math.pi / 180.0

MARGIN = 1e-6
"""Share by which bounds of haversines are lowered, and by which bounds of scores may be exceeded: more than float32
rounds.
"""


@kernel
def least_cosine(angle: float) -> float:
    """Return a lower bound of the cosine of an angle from -pi/2 to pi/2, at least 0."""
    y = angle * angle
    return max(0.0, 1.0 - y * (1 / 2 - y * (1 / 24 - y * (1 / 720 - y * (1 / 40320 - y / 3628800)))))


@kernel
def _least_haversine_of(angle: float) -> float:
    """Return a lower bound of sin^2(angle / 2), for an angle from 0 to pi."""
    x = angle * 0.5
    y = x * x
    sine = x * (1.0 - y * (1 / 6 - y * (1 / 120 - y * (1 / 5040 - y * (1 / 362880 - y / 39916800)))))
    return sine * sine


@kernel
def least_haversine_of_cell(lon: float, lat: float, cosine: float, cell: int, level: int) -> float:
    """Return a lower bound of the haversine of the least angle between a point in degrees and a cell.

    cosine  least_cosine of the latitude
    """
    wide, high = 360.0 / (1 << level), 180.0 / (1 << level)
    west, south = column_of_code(cell) * wide - 180.0, row_of_code(cell) * high - 90.0
    north = south + high
    least = _least_haversine_of(max(south - lat, lat - north, 0.0) * DEGREE)
    # Without a branch, so that the compiler computes several bounds at once.
    before, behind = west - lon, lon - west - wide
    outside = (before > 0.0) | (behind > 0.0)
    away = outside * min(before + 360.0 * (before < 0.0), behind + 360.0 * (behind < 0.0))
    least += cosine * least_cosine(max(-south, north) * DEGREE) * _least_haversine_of(away * DEGREE)
    return max(0.0, least * (1.0 - MARGIN) - 1e-15)


@kernel
def greatest_place_score(haversine: float, alpha: float, scale: float) -> float:
    """Return an upper bound of the part of the score that a place at this haversine or farther gives."""
    # The beginning of the series of asin(sqrt(haversine)) is below it.
    angle = math.sqrt(haversine) * (1.0 + haversine * (1 / 6 + 0.075 * haversine))
    return alpha * max(0.0, 1.0 - 2.0 * EARTH_RADIUS_M * angle / scale)


FREQUENT = 256
"""A term of so many objects of a segment is frequent: it has a list of its short texts."""


class TextArrays(NamedTuple):
    """Arrays of a segment by which texts are scored under weights of words.

    looks           uint32[n,4]: what a search looks at first, side by side in memory: the code of the place; the
                    squared length of the text (the sum of the squared weights of its words) as the bits of a float32; a
                    filter of its words, 64 bits of which the lower half is first: `filter_bit` of each is set
    floors          float32[1]: texts below this squared length are short: an eighth of all
    frequent        int32[F]: the terms of FREQUENT objects or more, ascending
    least_squares   float32[F]: the least squared length among the objects of each of these terms
    short_offsets, short_rows   int32[F+1], uint8[m,width]: the rows of the short texts of each of these terms,
                    ascending (kernels/questions/codes.py)
    """

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
    # Multiply by 2^32 over the golden ratio and take the upper bits, so that terms of near numbers are far apart.
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
        rows = with_room(rows, size + high - low)
        lowest = np.float32(np.inf)
        for place in range(low, high):
            row = number_at(postings, place)
            lowest = min(lowest, squares[row])
            rows[size] = row
            size += squares[row] < floor
        least[at], offsets[at + 1] = lowest, size
    return least, offsets, rows[:size].copy()
