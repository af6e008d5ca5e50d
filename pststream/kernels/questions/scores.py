"""Compute the score of an object for a point and words, in one way for questions and subscriptions.

A score is alpha * max(0, 1 - distance / scale) + (1 - alpha) * cosine, compared as float32. The cosine is the sum of
the squared weights of the shared words over the lengths of both vectors.
"""

import math

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.circle import EARTH_RADIUS_M
from pststream.kernels.questions.place_codes import haversine


@kernel
def place_score(lon: float, lat: float, object_lon: float, object_lat: float, alpha: float, scale: float) -> float:
    """Return the part of the score that the place of an object gives; the place asked for comes first."""
    metres = 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(haversine(lon, lat, object_lon, object_lat))))
    return alpha * max(0.0, 1.0 - metres / scale)


@kernel
def cosine_of(shared: float, square: np.float32, object_square: np.float32) -> float:
    """Return the cosine of two vectors: the sum of the squares of what they share, and the squared length of each."""
    return shared / math.sqrt(np.float64(square) * np.float64(object_square))
