"""Fit the bounds of a plan's raster to a sample, walk it along the Hilbert curve, and find the cells of boxes."""

import numpy as np

from pststream.plans.plan import DispatchGrid

COLUMNS = 512
ROWS = 512

TAIL = 0.001
"""Share of the points that may lie outside the raster, on each side of each axis."""

MIN_OBJECTS = 1000
"""With fewer objects, TAIL is less than one point, so the boxes of subscriptions are used as well."""

MIN_WIDTH = 0.01
"""Least width and height in degrees, about a kilometre: a smaller raster would only divide one location."""


def fit_raster(
    lon: np.ndarray, lat: np.ndarray, boxes: np.ndarray, columns: int = COLUMNS, rows: int = ROWS
) -> DispatchGrid:
    """Return a raster over most of the objects; outliers fall into its edge cells instead of stretching it.

    lon, lat  float64[objects]    degrees; values that are not finite are ignored
    boxes     float64[pieces, 4]  west, south, east, north; their middles are added to the points if there are fewer
                                  than MIN_OBJECTS objects; otherwise only objects count, as load arises there
    Returns a raster that is at least MIN_WIDTH wide and high and lies in the world; the whole world if there is no
    data. The order of the rows does not matter.
    """
    axes = [_finite(lon), _finite(lat)]
    if len(axes[0]) < MIN_OBJECTS:
        middles = (boxes[:, :2] + boxes[:, 2:]) / 2.0
        axes = [np.concatenate([axis, _finite(middles[:, number])]) for number, axis in enumerate(axes)]
    (west, east), (south, north) = (_range(axis, -bound, bound) for axis, bound in zip(axes, (180.0, 90.0)))
    return DispatchGrid(west, south, east, north, columns, rows)


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def _range(values: np.ndarray, least: float, greatest: float) -> tuple[float, float]:
    """Return the range of an axis without its tails, at least MIN_WIDTH wide and within [least, greatest]."""
    if len(values) == 0:
        return least, greatest
    low, high = (float(np.clip(q, least, greatest)) for q in np.quantile(values, [TAIL, 1.0 - TAIL]))
    if high - low < MIN_WIDTH:
        middle = min(max((low + high) / 2.0, least + MIN_WIDTH / 2.0), greatest - MIN_WIDTH / 2.0)
        low, high = middle - MIN_WIDTH / 2.0, middle + MIN_WIDTH / 2.0
    return low, high


def hilbert_walk(columns: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return column and row of each block in the order of the curve: int64[columns * rows] each.

    For a raster that is not a square of a power of two, the curve of the next larger square is used, without the blocks
    outside the raster.

    Source: the usual bit-by-bit construction; see J. K. Lawder, "Calculation of mappings between one and n-dimensional
    values using the Hilbert space-filling curve", 2000.
    """
    rank = hilbert_rank(np.arange(columns * rows) % columns, np.arange(columns * rows) // columns, max(columns, rows))
    order = np.argsort(rank, kind="stable")
    return order % columns, order // columns


def hilbert_rank(x: np.ndarray, y: np.ndarray, side: int) -> np.ndarray:
    """Return the position on the curve of each block (x, y): int64.

    The curve fills a square whose side is the least power of two that is at least `side`.
    """
    x, y = x.astype(np.int64), y.astype(np.int64)
    rank = np.zeros_like(x)
    half = 1 << (max(side - 1, 1).bit_length() - 1)
    last = 2 * half - 1
    while half > 0:
        right, upper = (x & half) > 0, (y & half) > 0
        rank += half * half * ((3 * right) ^ upper)
        flip = right & ~upper
        x, y = np.where(flip, last - x, x), np.where(flip, last - y, y)
        x, y = np.where(upper, x, y), np.where(upper, y, x)
        half >>= 1
    return rank


_CHUNK = 1 << 14
"""Number of boxes computed at a time, so that intermediate arrays stay in the cache of the processor."""


def compute_cell_ranges(grid: DispatchGrid, boxes: np.ndarray) -> np.ndarray:
    """Return first column, first row, last column, last row of each box (float64[n, 4]): int32[n, 4]."""
    ranges = np.empty((len(boxes), 4), dtype=np.int32)
    for start in range(0, len(boxes), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        ranges[chunk, 0::2] = grid.cell_x(boxes[chunk, 0::2])
        ranges[chunk, 1::2] = grid.cell_y(boxes[chunk, 1::2])
    return ranges
