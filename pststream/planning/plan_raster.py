"""Choose the bounds of a plan's raster so that it covers most sampled objects; outliers belong to its edge cells."""

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

_WORLD = ((-180.0, 180.0), (-90.0, 90.0))


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
    (west, east), (south, north) = (_range(axis, *world) for axis, world in zip(axes, _WORLD))
    return DispatchGrid(west, south, east, north, columns, rows)


def _finite(values: np.ndarray) -> np.ndarray:
    """Return the finite values."""
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
