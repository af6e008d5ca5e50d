"""Number the places of a world of 65,536 columns and rows in Morton order, and measure distances between them.

Columns and rows never decrease with longitude and latitude, so a box covers exactly the columns and rows between those
of its corners, whatever the rounding. A cell of level l has the 2 l leading bits of its places' codes in common.
"""

import math

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.circle import EARTH_RADIUS_M
from pststream.kernels.matching.index_cells import interleave

LEVELS = 16
"""Level of the finest cells: a place is a cell of this level."""

LAST = (1 << LEVELS) - 1


@kernel
def place_column(lon: float) -> int:
    """Return the column of a longitude, 0 to LAST."""
    return min(max(int((lon + 180.0) * (65536.0 / 360.0)), 0), LAST)


@kernel
def place_row(lat: float) -> int:
    """Return the row of a latitude, 0 to LAST, counted from the south."""
    return min(max(int((lat + 90.0) * (65536.0 / 180.0)), 0), LAST)


@kernel
def place_codes(lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """Return the Morton codes of points in degrees: uint32[n]; `lon`, `lat` float64[n]."""
    codes = np.empty(len(lon), np.uint32)
    for row in range(len(lon)):
        codes[row] = interleave(place_column(lon[row]), place_row(lat[row]))
    return codes


@kernel
def column_of_code(code: int) -> int:
    """Return the column of a code: its bits at even places."""
    return _gather(code)


@kernel
def row_of_code(code: int) -> int:
    """Return the row of a code: its bits at odd places."""
    return _gather(code >> 1)


@kernel
def _gather(value: int) -> int:
    value &= 0x5555555555555555
    value = (value | (value >> 1)) & 0x3333333333333333
    value = (value | (value >> 2)) & 0x0F0F0F0F0F0F0F0F
    value = (value | (value >> 4)) & 0x00FF00FF00FF00FF
    value = (value | (value >> 8)) & 0x0000FFFF0000FFFF
    return (value | (value >> 16)) & 0xFFFFFFFF


@kernel
def haversine(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Return the haversine of the angle between two points in degrees, by the same operations as `haversine_m`."""
    lon1, lat1, lon2, lat2 = math.radians(lon1), math.radians(lat1), math.radians(lon2), math.radians(lat2)
    a = math.sin((lat2 - lat1) / 2.0) ** 2
    return a + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2.0) ** 2


@kernel
def distances_m(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the great-circle distance of each point to its place, metres: float64[n]; both float64[n,2]."""
    metres = np.empty(len(points), np.float64)
    for at in range(len(points)):
        a = haversine(points[at, 0], points[at, 1], places[at, 0], places[at, 1])
        metres[at] = 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a)))
    return metres
