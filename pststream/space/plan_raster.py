"""The raster of a plan: where the data of a sample lies."""

import numpy as np

from pststream.domain.plan import DispatchGrid

COLUMNS = 512
ROWS = 512

TAIL = 0.001
"""Share of the points that may lie outside, on each side of each axis."""

ENOUGH_OBJECTS = 1000
"""With fewer objects the tail is less than one point, and the subscriptions tell more."""

LEAST_WIDTH = 0.01
"""Degrees, about a kilometre: a narrower raster would only separate what is in one place."""

_WORLD = ((-180.0, 180.0), (-90.0, 90.0))


def fit_raster(
    lon: np.ndarray, lat: np.ndarray, boxes: np.ndarray, columns: int = COLUMNS, rows: int = ROWS
) -> DispatchGrid:
    """A raster over the bulk of the objects; far outliers fall into its edge cells instead of stretching it.

    lon, lat  float64[objects]    degrees; values that are not finite are left out
    boxes     float64[pieces, 4]  west, south, east, north; their middles are joined to the points when the objects are
                                  fewer than ENOUGH_OBJECTS, as load arises only where objects are
    Returns a raster that is at least LEAST_WIDTH wide and high and lies in the world; the whole world if there is
    nothing to go by. The order of the rows does not matter.
    """
    axes = [_finite(lon), _finite(lat)]
    if len(axes[0]) < ENOUGH_OBJECTS:
        middles = (boxes[:, :2] + boxes[:, 2:]) / 2.0
        axes = [np.concatenate([axis, _finite(middles[:, place])]) for place, axis in enumerate(axes)]
    (west, east), (south, north) = (_range(axis, *world) for axis, world in zip(axes, _WORLD))
    return DispatchGrid(west, south, east, north, columns, rows)


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def _range(values: np.ndarray, least: float, greatest: float) -> tuple[float, float]:
    if len(values) == 0:
        return least, greatest
    low, high = (float(np.clip(q, least, greatest)) for q in np.quantile(values, [TAIL, 1.0 - TAIL]))
    if high - low < LEAST_WIDTH:
        middle = min(max((low + high) / 2.0, least + LEAST_WIDTH / 2.0), greatest - LEAST_WIDTH / 2.0)
        low, high = middle - LEAST_WIDTH / 2.0, middle + LEAST_WIDTH / 2.0
    return low, high
