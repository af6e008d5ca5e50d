"""Lay out the map of a question: its region or its point, and the places of the objects of its answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pststream.queries.shapes.contract import Region
from pststream.reports.plots.base_map import BaseMap, Projection, draw_base_map, fit_view, point_path
from pststream.reports.plots.plan_map import region_path

Place = tuple[float, float]
"""Longitude and latitude in degrees."""

_LEAST_SIDE = 0.02
"""Degrees that a map shows at least."""


@dataclass(frozen=True)
class AnswerMap:
    """A map of a question; `region`, `spot` and `dots` are path data, and there is one of `dots` for each object."""

    projection: Projection
    base: BaseMap
    region: str
    spot: str
    dots: list[str]


def draw_answer(region: Region | None, point: Place | None, objects: Sequence[Place]) -> AnswerMap:
    """Lay out the map; it shows the region with a margin, or else the point and the objects."""
    if region is not None:
        sides = np.array(region.boxes)
        corners = [sides[:, [axis, axis + 2]].ravel() for axis in (0, 1)]
    else:
        corners = list(np.array([*objects, *([point] if point else [])]).reshape(-1, 2).T)
    if len(corners[0]):
        corners = [np.array(_widened(values)) for values in corners]
    projection = fit_view(*corners)
    return AnswerMap(
        projection,
        draw_base_map(projection),
        region_path(region, projection) if region is not None else "",
        _dot(point, projection) if point else "",
        [_dot(axis, projection) for axis in objects],
    )


def draw_places(places: np.ndarray) -> tuple[AnswerMap, str]:
    """Lay out a map to draw a question on, and its dots as path data; places float64[n,2] of longitude and latitude."""
    projection = fit_view(places[:, 0], places[:, 1])
    empty = AnswerMap(projection, draw_base_map(projection), "", "", [])
    return empty, point_path(projection, places[:, 0], places[:, 1])


def _widened(values: np.ndarray) -> tuple[float, float]:
    """Return bounds with a fifth more on each side."""
    low, high = float(values.min()), float(values.max())
    more = max(0.2 * (high - low), _LEAST_SIDE)
    return low - more, high + more


def _dot(place: Place, projection: Projection) -> str:
    return point_path(projection, np.array([place[0]]), np.array([place[1]]))
