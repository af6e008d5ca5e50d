"""Lay out the background of every map: graticule lines with labels, and the largest cities as dots."""

import math
from typing import NamedTuple

import numpy as np

from pststream.base.format_values import degrees
from pststream.reports.plots.projection import WIDTH, Projection, graticule_step
from pststream.workloads.places import city_places

_MAX_CITIES = 14_000


class MapLabel(NamedTuple):
    """A text on a map, in units of the map; `width`: how wide it may become, 0 for any width."""

    x: float
    y: float
    text: str
    width: float = 0.0


class BaseMap(NamedTuple):
    """Path data of the graticule and of the cities, the texts of the graticule, and the `viewBox` of the SVG."""

    view_box: str
    graticule: str
    labels: list[MapLabel]
    cities: str


def draw_base_map(projection: Projection) -> BaseMap:
    """Lay out the base map of a view."""
    step = graticule_step(max(projection.east - projection.west, projection.north - projection.south))
    lines, labels = [], []
    for lon in _multiples(projection.west, projection.east, step):
        x = float(projection.x(lon))
        lines.append(f"M{x:.1f} 0V{projection.height:g}")
        labels.append(MapLabel(round(x + 3, 1), round(projection.height - 4, 1), degrees(lon, "EW")))
    for lat in _multiples(projection.south, projection.north, step):
        y = float(projection.y(lat))
        lines.append(f"M0 {y:.1f}H{WIDTH:g}")
        labels.append(MapLabel(3, round(y - 3, 1), degrees(lat, "NS")))
    view_box = f"0 0 {WIDTH:g} {projection.height:g}"
    return BaseMap(view_box, "".join(lines), labels, point_path(projection, *_cities(projection)))


def point_path(projection: Projection, lon: np.ndarray, lat: np.ndarray) -> str:
    """Return all points in the view as one path of strokes without length: dots that keep their size in a zoom."""
    inside = projection.inside(lon, lat)
    places = zip(projection.x(lon[inside]).tolist(), projection.y(lat[inside]).tolist())
    return "".join(f"M{x:.2f} {y:.2f}h0" for x, y in places)


def _cities(projection: Projection) -> tuple[np.ndarray, np.ndarray]:
    """Return the most populous city of each small square of the view; together these cities outline the continents."""
    places = city_places()
    inside = np.flatnonzero(projection.inside(places.lon, places.lat))
    inside = inside[np.argsort(-places.weight[inside], kind="stable")]
    square = np.round(projection.x(places.lon[inside]) / 2) * 10_000 + np.round(projection.y(places.lat[inside]) / 2)
    _, first = np.unique(square, return_index=True)
    chosen = inside[np.sort(first)][:_MAX_CITIES]
    return places.lon[chosen], places.lat[chosen]


def _multiples(low: float, high: float, step: float) -> list[float]:
    return [round(i * step, 6) for i in range(math.floor(low / step) + 1, math.ceil(high / step))]
