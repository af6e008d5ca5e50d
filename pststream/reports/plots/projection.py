"""Project longitude and latitude to map units (equirectangular), and fit the bounds of a map to points."""

import math
from dataclasses import dataclass

import numpy as np

WIDTH = 1000.0
_MIN_HEIGHT, _MAX_HEIGHT = 420.0, 760.0


@dataclass(frozen=True)
class Projection:
    """The bounds of a view in degrees, and its height in units; its width is WIDTH. y grows to the south."""

    west: float
    south: float
    east: float
    north: float
    height: float

    def x(self, lon: np.ndarray | float) -> np.ndarray:
        """Units from the left."""
        return (np.asarray(lon, np.float64) - self.west) * (WIDTH / (self.east - self.west))

    def y(self, lat: np.ndarray | float) -> np.ndarray:
        """Units from the top."""
        return (self.north - np.asarray(lat, np.float64)) * (self.height / (self.north - self.south))

    def inside(self, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
        """Whether each point lies in the view."""
        return (lon >= self.west) & (lon <= self.east) & (lat >= self.south) & (lat <= self.north)


def fit_view(lon: np.ndarray, lat: np.ndarray) -> Projection:
    """Fit a view to all but the outermost points, with a margin; to the inhabited world if there are no points."""
    if not len(lon):
        return _fit(-180.0, -58.0, 180.0, 78.0)
    west, east = np.percentile(lon, [0.25, 99.75])
    south, north = np.percentile(lat, [0.25, 99.75])
    margin = 0.04 * max(east - west, north - south, 0.05)
    if east - west > 240:
        return _fit(-180.0, min(south - margin, -58.0), 180.0, max(north + margin, 76.0))
    return _fit(west - margin, south - margin, east + margin, north + margin)


def _fit(west: float, south: float, east: float, north: float) -> Projection:
    """Widen the bounds until the map is neither too flat nor too tall."""
    west, east = max(west, -180.0), min(east, 180.0)
    south, north = max(south, -90.0), min(north, 90.0)
    # A view of more than half the world keeps its shapes at 40 degrees, about where most cities are.
    middle = 40.0 if east - west > 180 else (south + north) / 2
    squeeze = max(math.cos(math.radians(middle)), 0.3)
    units = WIDTH / ((east - west) * squeeze)
    height = (north - south) * units
    if height < _MIN_HEIGHT:
        more = (_MIN_HEIGHT / units - (north - south)) / 2
        south, north = max(south - more, -90.0), min(north + more, 90.0)
        height = (north - south) * units
    if height > _MAX_HEIGHT:
        more = (height / _MAX_HEIGHT - 1) * (east - west) / 2
        west, east = max(west - more, -180.0), min(east + more, 180.0)
        height = min((north - south) * WIDTH / ((east - west) * squeeze), 1.3 * _MAX_HEIGHT)
    return Projection(west, south, east, north, round(height, 1))


def graticule_step(span: float) -> float:
    """Degrees between two lines of the graticule, for a view that is `span` degrees wide."""
    return next((step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30) if span / step <= 12), 30.0)
