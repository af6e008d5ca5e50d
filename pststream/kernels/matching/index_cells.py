"""Compute index cells, the quadtree cells of the worker index: the cell of a point, the level of a box, Morton order.

The quadtree spans the whole world; the cells of a level are numbered in Morton order.

A cell of level l is 360 / 2^l degrees wide and high. Its id carries its level: (1 << 2l) | morton, so that the ids of a
level are contiguous, and the parent of a cell is its id >> 2. Columns and rows never decrease with longitude and
latitude, so a box covers exactly the cells between those of its corners, whatever the rounding.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.sort_and_search import sort_values

MAX_LEVEL = 17
"""The finest level, with cells of about 300 m; smaller boxes are posted on it too."""


@kernel
def column_of(lon: float) -> int:
    """Column of a longitude on the finest level."""
    slot = int((lon + 180.0) * (131072.0 / 360.0))
    return min(max(slot, 0), 131071)


@kernel
def row_of(lat: float) -> int:
    """Row of a latitude on the finest level, counted from the south."""
    slot = int((lat + 90.0) * (131072.0 / 360.0))
    return min(max(slot, 0), 65535)


@kernel
def fine_column(lon: float) -> int:
    """Longitude in whole steps of 360 / 2^32 degrees (9 mm at the equator), counted from the west: 0 to 2^32 - 1.

    Never decreases with the longitude, and `column_of` is exactly its upper 17 bits.
    """
    return min(max(int((lon + 180.0) * (4294967296.0 / 360.0)), 0), 4294967295)


@kernel
def fine_row(lat: float) -> int:
    """Latitude in the same steps, counted from the south: 0 to 2^31 - 1; `row_of` is exactly its upper 16 bits."""
    return min(max(int((lat + 90.0) * (4294967296.0 / 360.0)), 0), 2147483647)


@kernel
def interleave(x: int, y: int) -> int:
    """Morton number: bits of x at the even places, of y at the odd ones (17 bits each)."""
    return _spread(x) | (_spread(y) << 1)


@kernel
def _spread(value: int) -> int:
    """Return the bits with a zero between any two: each line opens gaps of half the width."""
    value &= 0xFFFFFFFF
    value = (value | (value << 16)) & 0x0000FFFF0000FFFF
    value = (value | (value << 8)) & 0x00FF00FF00FF00FF
    value = (value | (value << 4)) & 0x0F0F0F0F0F0F0F0F
    value = (value | (value << 2)) & 0x3333333333333333
    return (value | (value << 1)) & 0x5555555555555555


@kernel
def level_of_box(west: float, south: float, east: float, north: float) -> int:
    """The finest level in use whose cells are at least as wide as the box: it covers at most 2 x 2 of them.

    Only every second level is in use: an object is looked up on half as many levels, at the cost of a few more
    candidates.
    """
    side = max(east - west, north - south)
    level = MAX_LEVEL
    while level > 0 and 360.0 / (1 << level) < side:
        level = max(level - 2, 0)
    return level


class BoxCells(NamedTuple):
    """The index cells that a box covers: their level, the column and row of the first, and how many on each axis."""

    level: int
    column: int
    row: int
    wide: int
    high: int


@kernel
def cells_of_box(west: float, south: float, east: float, north: float) -> BoxCells:
    """Return the index cells of a box on its level."""
    level = level_of_box(west, south, east, north)
    shift = MAX_LEVEL - level
    column, row = column_of(west) >> shift, row_of(south) >> shift
    return BoxCells(level, column, row, (column_of(east) >> shift) - column + 1, (row_of(north) >> shift) - row + 1)


# Sort points into Morton order, in which the points of an index cell of any level are neighbours.

_CODE_BITS = 2 * MAX_LEVEL
_PLACE_BITS = 64 - _CODE_BITS
MAX_POINTS = 1 << _PLACE_BITS


@kernel
def sort_points(lon, lat):
    """Return the order of fewer than MAX_POINTS points, and the Morton number of each point's cell on the finest level.

    Returns order int64[n] and codes int64[n], ascending; points of a cell stay in their order.
    """
    values = np.empty(len(lon), np.uint64)
    for i in range(len(lon)):
        code = interleave(column_of(lon[i]), row_of(lat[i]))
        values[i] = np.uint64((code << _PLACE_BITS) | i)
    values = sort_values(values, _PLACE_BITS, 64)
    order, codes = np.empty(len(lon), np.int64), np.empty(len(lon), np.int64)
    for i in range(len(lon)):
        order[i] = np.int64(values[i] & np.uint64(MAX_POINTS - 1))
        codes[i] = np.int64(values[i] >> np.uint64(_PLACE_BITS))
    return order, codes
