"""Compute the boxes, in degrees, of squares around points with sides given in kilometres."""

import numpy as np

from pststream.workloads.places import KM_PER_DEGREE, wrap


def square_boxes(lon: np.ndarray, lat: np.ndarray, side_km: np.ndarray) -> np.ndarray:
    """Return west, south, east, north of the square around each point: float64[n, 4], degrees.

    A box with west > east crosses the antimeridian. A square over a pole is cut there and spans all longitudes.
    """
    half = np.asarray(side_km, dtype=np.float64) / 2 / KM_PER_DEGREE
    boxes = np.empty((len(half), 4))
    boxes[:, 1] = np.maximum(lat - half, -90.0)
    boxes[:, 3] = np.minimum(lat + half, 90.0)
    wide = half / np.maximum(np.cos(np.radians(lat)), 1e-9)
    boxes[:, 0] = wrap(lon - wide)
    boxes[:, 2] = wrap(lon + wide)
    whole = (wide >= 180.0) | (lat + half > 90.0) | (lat - half < -90.0)
    boxes[whole, 0], boxes[whole, 2] = -180.0, 180.0
    return boxes
