"""Project points to map units, and lay out the background of every map: graticule lines with labels, cities."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pststream.base.texts import degrees
from pststream.reports.plots.bar_chart import Label
from pststream.workloads.places import city_places

WIDTH = 1000.0
_MIN_HEIGHT, _MAX_HEIGHT = 420.0, 760.0


@dataclass(frozen=True)
class Projection:
    """An equirectangular view: bounds in degrees, and height in units; its width is WIDTH. y grows to the south."""

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


_MAX_CITIES = 14_000


class BaseMap(NamedTuple):
    """Path data of the graticule and of the cities, the texts of the graticule, and the `viewBox` of the SVG."""

    view_box: str
    graticule: str
    labels: list[Label]
    cities: str


def draw_base_map(projection: Projection) -> BaseMap:
    """Lay out the base map of a view."""
    span = max(projection.east - projection.west, projection.north - projection.south)
    steps = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
    step = next((step for step in steps if span / step <= 12), 30.0)  # degrees between two lines of the graticule
    lines, labels = [], []
    for lon in _multiples(projection.west, projection.east, step):
        x = float(projection.x(lon))
        lines.append(f"M{x:.1f} 0V{projection.height:g}")
        labels.append(Label(round(x + 3, 1), round(projection.height - 4, 1), degrees(lon, "EW")))
    for lat in _multiples(projection.south, projection.north, step):
        y = float(projection.y(lat))
        lines.append(f"M0 {y:.1f}H{WIDTH:g}")
        labels.append(Label(3, round(y - 3, 1), degrees(lat, "NS")))
    view_box = f"0 0 {WIDTH:g} {projection.height:g}"
    # The most populous city of each small square of the view; together they outline the continents.
    places = city_places()
    inside = np.flatnonzero(projection.inside(places.lon, places.lat))
    inside = inside[np.argsort(-places.weight[inside], kind="stable")]
    square = np.round(projection.x(places.lon[inside]) / 2) * 10_000 + np.round(projection.y(places.lat[inside]) / 2)
    _, first = np.unique(square, return_index=True)
    chosen = inside[np.sort(first)][:_MAX_CITIES]
    cities = point_path(projection, places.lon[chosen], places.lat[chosen])
    return BaseMap(view_box, "".join(lines), labels, cities)


def point_path(projection: Projection, lon: np.ndarray, lat: np.ndarray) -> str:
    """Return all points in the view as one path of strokes without length: dots that keep their size in a zoom."""
    inside = projection.inside(lon, lat)
    places = zip(projection.x(lon[inside]).tolist(), projection.y(lat[inside]).tolist())
    return "".join(f"M{x:.2f} {y:.2f}h0" for x, y in places)


def _multiples(low: float, high: float, step: float) -> list[float]:
    return [round(i * step, 6) for i in range(math.floor(low / step) + 1, math.ceil(high / step))]
