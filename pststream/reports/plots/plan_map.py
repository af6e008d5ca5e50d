"""Lay out maps of plans, objects, matches and regions as SVG paths over a base map; compare the cells of two plans."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pststream.base.arrays import distinct_values
from pststream.base.texts import counted, degrees, percent, short
from pststream.plans.plan import BY_OBJECT, BY_SUBSCRIPTION, DispatchGrid, PartitionPlan
from pststream.plans.topk_plan import SPACE_FIRST, leaf_boxes
from pststream.queries.shapes.contract import Region
from pststream.queries.shapes.registry import outline
from pststream.reports.plots.bar_chart import Label
from pststream.reports.reading.plan_view import MeasuredLoads, PlanView
from pststream.reports.reading.samples import MatchView
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


class Rectangles(NamedTuple):
    """Rectangles of equal cells; all int64[n].

    value        the cells' value
    left, right  columns, right exclusive
    low, high    rows counted from the south, high exclusive
    """

    value: np.ndarray
    left: np.ndarray
    right: np.ndarray
    low: np.ndarray
    high: np.ndarray


def cover_with_rectangles(raster: np.ndarray) -> Rectangles:
    """Cover each cell of int[rows, columns] once: runs of equal cells in a row, merged with equal runs above."""
    rows, columns = raster.shape
    border = np.ones((rows, columns), dtype=bool)
    border[:, 1:] = raster[:, 1:] != raster[:, :-1]
    start = np.flatnonzero(border)
    end = np.append(start[1:], rows * columns)
    row, left = start // columns, start % columns
    right = left + end - start
    value = raster.reshape(-1)[start].astype(np.int64)
    order = np.lexsort((row, right, left, value))
    value, left, right, row = value[order], left[order], right[order], row[order]
    joined = np.zeros(len(value), dtype=bool)
    joined[1:] = (
        (value[1:] == value[:-1]) & (left[1:] == left[:-1]) & (right[1:] == right[:-1]) & (row[1:] == row[:-1] + 1)
    )
    first = np.flatnonzero(~joined)
    last = np.append(first[1:], len(value)) - 1
    return Rectangles(value[first], left[first], right[first], row[first], row[last] + 1)


COLOURS = 10
_MAX_LEAVES = 6_000
_MAX_RECTANGLES = 30_000
_LABELS_PER_WORKER = 3
_MAX_TIP_LINES = 9


class MapArea(NamedTuple):
    """Cells that are drawn as one shape: CSS class, path data, tooltip."""

    style: str
    path: str
    tip: str


class MapLayer(NamedTuple):
    """Areas, and labels with the workers' numbers on their largest rectangles."""

    areas: list[MapArea]
    labels: list[Label]


class MatchMarker(NamedTuple):
    """A dot for a matched object: path data, its text, and the numbers of its matches in the sample."""

    path: str
    text: str
    matches: list[int]


@dataclass(frozen=True)
class PlanMap:
    """A map of the plan, None without one; `objects` and `region` are path data."""

    projection: Projection
    base: BaseMap
    plan: MapLayer | None
    objects: str
    markers: Sequence[MatchMarker] = ()
    region: str = ""


def draw_plan_map(
    view: PlanView | None, loads: MeasuredLoads | None, points: np.ndarray, matches: list[MatchView]
) -> PlanMap:
    """Lay out a map that shows objects and matches on the plan; points float64[n, 2] of longitude and latitude."""
    lon = np.concatenate([points[:, 0], [match.lon for match in matches]])
    lat = np.concatenate([points[:, 1], [match.lat for match in matches]])
    if view is not None and not len(lon):
        grid = view.plan.grid
        lon, lat = np.array([grid.west, grid.east]), np.array([grid.south, grid.north])
    projection = fit_view(lon, lat)
    numbers: dict[tuple[float, float, str], list[int]] = {}
    for number, match in enumerate(matches):
        numbers.setdefault((match.lon, match.lat, match.object_id), []).append(number)
    # A marker for each matched object in the view, from west to east.
    markers = [
        MatchMarker(point_path(projection, np.array([lon]), np.array([lat])), matches[of_object[0]].text, of_object)
        for (lon, lat, _), of_object in sorted(numbers.items())
        if projection.inside(np.array(lon), np.array(lat))
    ]
    return PlanMap(
        projection,
        draw_base_map(projection),
        _draw_leaves(view, loads, projection) if view is not None else None,
        point_path(projection, points[:, 0], points[:, 1]),
        markers,
    )


def draw_region(view: PlanView | None, region: Region | None, points: np.ndarray) -> PlanMap:
    """Lay out a map of a region on the plan, with points float64[n, 2] of longitude and latitude.

    Without a region, the map shows the points and some degrees around them.
    """
    around = [(lon - 8.0, max(lat - 5.0, -90.0), lon + 8.0, min(lat + 5.0, 90.0)) for lon, lat in points]
    sides = np.array(region.boxes if region else around)
    corners = [np.concatenate([sides[:, i], sides[:, i + 2], points[:, i]]) for i in (0, 1)]
    # The map shows as much again on each side of the region.
    lon, lat = (np.array([2 * x.min() - x.max(), 2 * x.max() - x.min()]) for x in corners)
    projection = fit_view(lon, lat)
    return PlanMap(
        projection,
        draw_base_map(projection),
        _draw_leaves(view, None, projection) if view is not None else None,
        point_path(projection, points[:, 0], points[:, 1]),
        region=region_path(region, projection) if region else "",
    )


def region_path(region: Region, projection: Projection) -> str:
    """The outline of a region as path data, holes among its rings."""
    rings = ((projection.x(ring[:-1, 0]).tolist(), projection.y(ring[:-1, 1]).tolist()) for ring in outline(region))
    return "".join("M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in zip(xs, ys)) + "Z" for xs, ys in rings)


def _draw_leaves(view: PlanView, loads: MeasuredLoads | None, projection: Projection) -> MapLayer:
    """One area for each leaf, or one for each worker if there are too many leaves."""
    plan = view.plan
    worker_of_leaf = _worker_of_leaf(plan)
    raster = plan.cell_leaf.reshape(plan.grid.rows, plan.grid.columns).astype(np.int64)
    single = plan.leaves <= _MAX_LEAVES
    if not single:
        raster = worker_of_leaf[raster]
    values, corners = cover_raster(raster, plan.grid, projection)
    areas = []
    for value, path in outline_values(values, corners):
        worker = int(worker_of_leaf[value]) if single else value
        tip = _describe_leaf(view, loads, value) if single else f"Worker {worker}" if worker >= 0 else "By text"
        areas.append(MapArea(worker_style(worker), path, tip))
    return MapLayer(areas, label_workers(worker_of_leaf[values] if single else values, corners))


def worker_style(worker: int) -> str:
    """The CSS class of what a worker serves; -1: several workers share it."""
    return f"w{worker % COLOURS}" if worker >= 0 else "by-text"


def cover_raster(raster: np.ndarray, grid: DispatchGrid, projection: Projection) -> tuple[np.ndarray, np.ndarray]:
    """Cover a raster of int[rows, columns] with rectangles of equal cells; a coarser raster if these are too many.

    Returns values int64[n], ascending, and corners float64[n, 4]: x, y, width, height in units of the map.
    """
    cover = cover_with_rectangles(raster)
    scale = 1
    while len(cover.value) > _MAX_RECTANGLES:
        scale *= 2
        cover = cover_with_rectangles(raster[::scale, ::scale])
    wide, tall = (grid.east - grid.west) / grid.columns * scale, (grid.north - grid.south) / grid.rows * scale
    left = projection.x(grid.west + cover.left * wide)
    right = projection.x(np.minimum(grid.west + cover.right * wide, grid.east))
    top = projection.y(np.minimum(grid.south + cover.high * tall, grid.north))
    bottom = projection.y(grid.south + cover.low * tall)
    return cover.value, np.column_stack([left, top, right - left, bottom - top])


def outline_values(values: np.ndarray, corners: np.ndarray) -> Iterator[tuple[int, str]]:
    """Yield each value with the path data of its rectangles."""
    borders = np.flatnonzero(np.diff(values, prepend=values[0] - 1, append=values[-1] + 1))
    for first, end in zip(borders[:-1].tolist(), borders[1:].tolist()):
        shapes = (f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z" for x, y, w, h in corners[first:end].tolist())
        yield int(values[first]), "".join(shapes)


def label_workers(workers: np.ndarray, corners: np.ndarray) -> list[Label]:
    """Label the largest rectangles of each worker with its number (-1: none); the page hides labels that do not fit."""
    labels = []
    area = corners[:, 2] * corners[:, 3]
    for worker in distinct_values(workers[workers >= 0]).tolist():
        mine = np.flatnonzero(workers == worker)
        for i in mine[np.argsort(-area[mine], kind="stable")][:_LABELS_PER_WORKER].tolist():
            x, y, w, h = corners[i].tolist()
            labels.append(Label(round(x + w / 2, 1), round(y + h / 2, 1), str(worker), round(min(w, 1.6 * h), 1)))
    return labels


def _describe_leaf(view: PlanView, loads: MeasuredLoads | None, leaf: int) -> str:
    """The tooltip of a leaf, a line for each fact."""
    plan = view.plan
    total = max(float(view.unit_load.sum()), 1e-300)
    if plan.leaf_unit[leaf] == BY_SUBSCRIPTION:
        lines = [
            f"Worker {worker}: {percent(load / total)} of load, {short(stored)} subscriptions"
            for worker, load, stored in zip(plan.unit_worker, view.unit_load, view.unit_subscriptions)
        ]
        return _shortened(["The world, by subscription", *lines])
    if plan.leaf_unit[leaf] == BY_OBJECT:
        lines = [
            f"Worker {plan.unit_worker[unit]}: {percent(view.unit_load[unit] / total)} of load,"
            f" {short(view.unit_objects[unit])} objects"
            for unit in np.flatnonzero(plan.leaf_of_units() == leaf).tolist()
        ]
        return _shortened([f"Leaf {leaf}, by object", *lines])
    if leaf in view.leaf_words:
        lines = [f"Leaf {leaf}, by text"]
        for unit, number, words in sorted(view.leaf_words[leaf]):
            some = ", ".join(words) + (" …" if number > len(words) else "")
            terms = f"{counted(number, 'term')}: {some}" if words else counted(number, "term")
            lines.append(f"Worker {plan.unit_worker[unit]}: {percent(view.unit_load[unit] / total)} of load, {terms}")
        return _shortened(lines)
    unit = int(plan.leaf_unit[leaf])
    lines = [
        f"Worker {plan.unit_worker[unit]}, leaf {leaf}",
        f"Predicted: {percent(view.unit_load[unit] / total)} of the load,"
        f" {short(view.unit_objects[unit])} objects, {short(view.unit_subscriptions[unit])} subscriptions",
    ]
    if loads is not None and loads.units["objects"].any():
        objects, candidates, matches = (short(loads.units[name][unit]) for name in ("objects", "candidates", "matches"))
        lines.append(f"Measured: {objects} objects, {candidates} candidates, {matches} matches")
    return "\n".join(lines)


def _shortened(lines: list[str]) -> str:
    """Return the lines of a tooltip as a text of at most _MAX_TIP_LINES, with the number of the others."""
    more = len(lines) - _MAX_TIP_LINES
    return "\n".join(lines[:_MAX_TIP_LINES] + ([f"and {counted(more, 'more unit')}"] if more > 0 else []))


def draw_topk_parts(plan: Mapping[str, Any], projection: Projection) -> MapLayer | None:
    """Return an area for each part of the space, in the colour of its first unit; None if words are divided first.

    plan  the document of `reports/commands/plans.py`, of another planner than `hash`

    Each run of words of `keyword_first` divides the space by a tree of its own; these parts overlap and are not drawn.
    """
    if plan["way"] != SPACE_FIRST or plan["first"] == 1:
        return None
    west, south, east, north = leaf_boxes(np.array(plan["space_cuts"])).T
    left, top, right, bottom = projection.x(west), projection.y(north), projection.x(east), projection.y(south)
    corners = np.column_stack([left, top, right - left, bottom - top])
    areas, loads, second = [], np.array(plan["unit_loads"]), plan["second"]
    for part, path in outline_values(np.arange(plan["first"]), corners):
        units = range(part * second, (part + 1) * second)
        named = f"unit {units[0]}" if second == 1 else f"units {units[0]} to {units[-1]}"
        share = percent(loads[units].sum() / (loads.sum() or 1.0))
        tip = f"Plan of topk, {named}\nPredicted: {share} of the load"
        areas.append(MapArea(worker_style(units[0]), path, tip))
    return MapLayer(areas, [])


BY_TEXT = -1


@dataclass(frozen=True)
class PlanChange:
    """The cells of two plans, on the raster of the later plan.

    before, after  int64[cells]  worker of each cell; BY_TEXT: several share it
    changed        bool[cells]   whether some of the cell's terms are served by another worker than before
    """

    before: np.ndarray
    after: np.ndarray
    changed: np.ndarray


def compare_cells(before: PartitionPlan, after: PartitionPlan) -> PlanChange:
    """Compare two plans; if their rasters differ, compare a cell with the cell of the earlier plan at its centre."""
    # A number for each leaf, the same for leaves whose terms go to the same workers.
    numbers: dict[tuple[bytes, ...], int] = {}
    old, new = (
        np.array([numbers.setdefault(plan.servers(leaf), len(numbers)) for leaf in range(plan.leaves)], np.int64)
        for plan in (before, after)
    )
    grid = after.grid
    cell = np.arange(grid.cells)
    if before.grid != grid:
        lon = grid.west + (cell % grid.columns + 0.5) * (grid.east - grid.west) / grid.columns
        lat = grid.south + (cell // grid.columns + 0.5) * (grid.north - grid.south) / grid.rows
        cell = before.grid.cell(lon, lat)
    leaf_before, leaf_after = before.cell_leaf[cell], after.cell_leaf
    changed = old[leaf_before] != new[leaf_after]
    return PlanChange(_worker_of_leaf(before)[leaf_before], _worker_of_leaf(after)[leaf_after], changed)


def _worker_of_leaf(plan: PartitionPlan) -> np.ndarray:
    worker = plan.unit_worker[np.maximum(plan.leaf_unit, 0)].astype(np.int64)
    return np.where(plan.leaf_unit >= 0, worker, BY_TEXT)
