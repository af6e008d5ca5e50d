"""Bound the score of places and texts without trigonometry: upper bounds, for callers that leave a margin.

A score is alpha * max(0, 1 - distance / scale) + (1 - alpha) * cosine. Sines and cosines are the beginnings of their
series that end with a subtraction, and so are never too great.
"""

import math

from pststream.kernels.compile import kernel
from pststream.kernels.matching.circle import EARTH_RADIUS_M
from pststream.kernels.questions.place_codes import column_of_code, row_of_code

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
