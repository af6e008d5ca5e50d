"""The map: the plan's leaves by worker, cities as the base map, objects and matches as dots."""

import math
from collections.abc import Iterator

import numpy as np

from pststream.domain.plan import DispatchGrid
from pststream.domain.region import Region
from pststream.format_values import counted, degrees, percent, short
from pststream.generator.places import city_places
from pststream.reports.plots.html import Markup, element, joined
from pststream.reports.plots.leaf_rectangles import Rectangles, rectangles
from pststream.reports.plots.projection import WIDTH, Projection, step_of, view_of
from pststream.reports.reading.plan_view import MeasuredLoads, PlanView
from pststream.reports.reading.samples import MatchView

COLOURS = 10
_MOST_LEAVES = 6_000
_MOST_RECTANGLES = 30_000
_MOST_CITIES = 14_000
_LABELS_OF_WORKER = 3
_LINES_OF_TIP = 9


def draw_map(
    view: PlanView | None, loads: MeasuredLoads | None, points: np.ndarray, matches: list[MatchView]
) -> tuple[Markup, Projection]:
    """The map as SVG, and its projection."""
    lon = np.concatenate([points[:, 0], [match.lon for match in matches]])
    lat = np.concatenate([points[:, 1], [match.lat for match in matches]])
    if view is not None and not len(lon):
        grid = view.plan.grid
        lon, lat = np.array([grid.west, grid.east]), np.array([grid.south, grid.north])
    projection = view_of(lon, lat)
    layers = joined(
        base_layers(projection),
        _plan(view, loads, projection) if view is not None else None,
        _dots(projection, points[:, 0], points[:, 1], class_="objects"),
        element("path", id="region", d=""),
        element("g", _markers(projection, matches), class_="matches", role="group", aria_label="Matched objects"),
    )
    return drawing(layers, projection, "Map of the plan, of objects and of matches"), projection


def drawing(layers: Markup, projection: Projection, label: str) -> Markup:
    """The SVG that the page's script zooms."""
    return element(
        "svg",
        layers,
        id="map",
        viewBox=f"0 0 {WIDTH:g} {projection.height:g}",
        role="group",
        aria_label=label,
        preserveAspectRatio="xMidYMid meet",
    )


def map_tools(layers: list[tuple[str, str]]) -> Markup:
    """Switches of the layers (name, title), and the buttons that zoom."""
    boxes = [
        element("label", element("input", type="checkbox", checked=True, data_layer=name), title)
        for name, title in layers
    ]
    zooms = [("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("all", "All", "Show all")]
    buttons = [element("button", sign, type="button", data_zoom=name, aria_label=title) for name, sign, title in zooms]
    return element("div", boxes, element("span", buttons, class_="zoom"), class_="tools")


def draw_region(view: PlanView | None, region: Region, points: np.ndarray) -> Markup:
    """A map of a region on the plan, with points float64[n, 2] of longitude and latitude."""
    sides = np.array(region.boxes)
    corners = [np.concatenate([sides[:, i], sides[:, i + 2], points[:, i]]) for i in (0, 1)]
    # As much again on each side, to see where it lies.
    lon, lat = (np.array([2 * x.min() - x.max(), 2 * x.max() - x.min()]) for x in corners)
    projection = view_of(lon, lat)
    layers = joined(
        base_layers(projection),
        _plan(view, None, projection) if view is not None else None,
        element("path", id="region", d=region_path(region, projection)),
        _dots(projection, points[:, 0], points[:, 1], class_="spot"),
    )
    return drawing(layers, projection, "Map of the region, on the plan")


def base_layers(projection: Projection) -> Markup:
    """What lies under a plan: the hatch of what is shared by text, the graticule, cities as the base map."""
    lines = element("path", d="M0 0V7")
    turn = "rotate(45)"
    hatch = element(
        "pattern", lines, id="hatch", width=7, height=7, patternUnits="userSpaceOnUse", patternTransform=turn
    )
    cities = _dots(projection, *_cities(projection), class_="cities")
    return joined(element("defs", hatch), _graticule(projection), cities)


def region_path(match: MatchView | Region, projection: Projection) -> str:
    """A region as path data: its boxes, or its circle where that crosses neither pole nor edge."""
    if match.circle is not None:
        lon, lat = _circle(*match.circle)
        if np.abs(lon).max() < 180 and abs(match.circle[1]) + match.circle[2] / 111_195 < 90:
            steps = zip(projection.x(lon).tolist(), projection.y(lat).tolist())
            return "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in steps) + "Z"
    parts = []
    for west, south, east, north in match.boxes:
        left, right = projection.x(west), projection.x(east)
        top, bottom = projection.y(north), projection.y(south)
        parts.append(f"M{left:.2f} {top:.2f}H{right:.2f}V{bottom:.2f}H{left:.2f}Z")
    return "".join(parts)


def _circle(lon: float, lat: float, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Points on a circle on the sphere, degrees; longitudes are not wrapped."""
    turn = np.linspace(0, 2 * math.pi, 48, endpoint=False)
    away, y = min(radius / 6_371_008.8, math.pi / 2), math.radians(lat)
    north = np.arcsin(np.clip(math.sin(y) * math.cos(away) + math.cos(y) * math.sin(away) * np.cos(turn), -1, 1))
    east = np.arctan2(np.sin(turn) * math.sin(away) * math.cos(y), math.cos(away) - math.sin(y) * np.sin(north))
    return lon + np.degrees(east), np.degrees(north)


def _cities(projection: Projection) -> tuple[np.ndarray, np.ndarray]:
    """One city for each small square of the view, the most populous; they outline the continents."""
    places = city_places()
    inside = np.flatnonzero(projection.inside(places.lon, places.lat))
    inside = inside[np.argsort(-places.weight[inside], kind="stable")]
    square = np.round(projection.x(places.lon[inside]) / 2) * 10_000 + np.round(projection.y(places.lat[inside]) / 2)
    _, first = np.unique(square, return_index=True)
    chosen = inside[np.sort(first)][:_MOST_CITIES]
    return places.lon[chosen], places.lat[chosen]


def _dots(projection: Projection, lon: np.ndarray, lat: np.ndarray, class_: str) -> Markup:
    """All points as one path of strokes without length, which stay as wide as they are at any zoom."""
    inside = projection.inside(lon, lat)
    places = zip(projection.x(lon[inside]).tolist(), projection.y(lat[inside]).tolist())
    return element("path", class_=class_, d="".join(f"M{x:.2f} {y:.2f}h0" for x, y in places), aria_hidden="true")


def _graticule(projection: Projection) -> Markup:
    step = step_of(max(projection.east - projection.west, projection.north - projection.south))
    lines, labels = [], []
    for lon in _multiples(projection.west, projection.east, step):
        x = float(projection.x(lon))
        lines.append(f"M{x:.1f} 0V{projection.height:g}")
        labels.append(element("text", degrees(lon, "EW"), x=round(x + 3, 1), y=round(projection.height - 4, 1)))
    for lat in _multiples(projection.south, projection.north, step):
        y = float(projection.y(lat))
        lines.append(f"M0 {y:.1f}H{WIDTH:g}")
        labels.append(element("text", degrees(lat, "NS"), x=3, y=round(y - 3, 1)))
    grid = element("path", d="".join(lines))
    return element("g", grid, labels, class_="graticule", aria_hidden="true")


def _multiples(low: float, high: float, step: float) -> list[float]:
    return [round(i * step, 6) for i in range(math.floor(low / step) + 1, math.ceil(high / step))]


def _plan(view: PlanView, loads: MeasuredLoads | None, projection: Projection) -> Markup:
    """The leaves, one path each (one a worker, if there are too many), and the workers' numbers on them."""
    plan = view.plan
    by_text = plan.leaf_unit < 0
    worker_of_leaf = np.where(by_text, -1, plan.unit_worker[np.maximum(plan.leaf_unit, 0)])
    raster = plan.cell_leaf.reshape(plan.grid.rows, plan.grid.columns).astype(np.int64)
    single = plan.leaves <= _MOST_LEAVES
    if not single:
        raster = worker_of_leaf[raster]
    values, corners = shapes_of(raster, plan.grid, projection)
    paths = []
    for value, shape in outlines(values, corners):
        worker = int(worker_of_leaf[value]) if single else value
        tip = _leaf_tip(view, loads, value) if single else f"Worker {worker}" if worker >= 0 else "By text"
        paths.append(element("path", class_=f"leaf {colour_of(worker)}", d=shape, data_tip=tip))
    workers = worker_of_leaf[values] if single else values
    return element("g", paths, worker_names(workers, corners), class_="plan")


def colour_of(worker: int) -> str:
    """The class of a worker's shapes; -1: several, by text."""
    return f"w{worker % COLOURS}" if worker >= 0 else "by-text"


def shapes_of(raster: np.ndarray, grid: DispatchGrid, projection: Projection) -> tuple[np.ndarray, np.ndarray]:
    """Rectangles that cover a raster of int[rows, columns], coarser if there are too many: value and corners of each.

    value int64[n] ascending; corners float64[n, 4]: x, y, width, height in units.
    """
    found = rectangles(raster)
    scale = 1
    while len(found) > _MOST_RECTANGLES:
        scale *= 2
        found = rectangles(raster[::scale, ::scale])
    return found.value, _corners(found, grid, projection, scale)


def outlines(values: np.ndarray, corners: np.ndarray) -> Iterator[tuple[int, str]]:
    """For each value its rectangles as path data."""
    borders = np.flatnonzero(np.diff(values, prepend=values[0] - 1, append=values[-1] + 1))
    for first, end in zip(borders[:-1].tolist(), borders[1:].tolist()):
        shapes = (f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z" for x, y, w, h in corners[first:end].tolist())
        yield int(values[first]), "".join(shapes)


def _corners(found: Rectangles, grid: DispatchGrid, projection: Projection, scale: int) -> np.ndarray:
    """x, y, width, height of each rectangle, in units: float64[n, 4]."""
    wide, tall = (grid.east - grid.west) / grid.columns * scale, (grid.north - grid.south) / grid.rows * scale
    left = projection.x(grid.west + found.left * wide)
    right = projection.x(np.minimum(grid.west + found.right * wide, grid.east))
    top = projection.y(np.minimum(grid.south + found.high * tall, grid.north))
    bottom = projection.y(grid.south + found.low * tall)
    return np.column_stack([left, top, right - left, bottom - top])


def worker_names(workers: np.ndarray, corners: np.ndarray) -> Markup:
    """The number of each worker (none for -1) on its largest rectangles; the page hides those that have no room."""
    labels = []
    area = corners[:, 2] * corners[:, 3]
    for worker in np.unique(workers[workers >= 0]).tolist():
        mine = np.flatnonzero(workers == worker)
        for i in mine[np.argsort(-area[mine], kind="stable")][:_LABELS_OF_WORKER].tolist():
            x, y, w, h = corners[i].tolist()
            room = round(min(w, 1.6 * h), 1)
            labels.append(element("text", worker, x=round(x + w / 2, 1), y=round(y + h / 2, 1), data_room=room))
    return element("g", labels, class_="worker-names", aria_hidden="true")


def _leaf_tip(view: PlanView, loads: MeasuredLoads | None, leaf: int) -> str:
    """What the leaf is, a line for each fact."""
    plan = view.plan
    total = max(float(view.unit_load.sum()), 1e-300)
    if leaf in view.leaf_words:
        lines = [f"Leaf {leaf}, by text"]
        for unit, number, words in sorted(view.leaf_words[leaf]):
            some = ", ".join(words) + (" …" if number > len(words) else "")
            terms = f"{counted(number, 'term')}: {some}" if words else counted(number, "term")
            lines.append(f"Worker {plan.unit_worker[unit]}: {percent(view.unit_load[unit] / total)} of load, {terms}")
        more = len(lines) - _LINES_OF_TIP
        return "\n".join(lines[:_LINES_OF_TIP] + ([f"and {more} more units"] if more > 0 else []))
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


def _markers(projection: Projection, matches: list[MatchView]) -> list[Markup]:
    """A dot for each matched object, from west to east; `data-rows` names its rows in the table of matches."""
    rows: dict[tuple[float, float, str], list[int]] = {}
    for number, match in enumerate(matches):
        rows.setdefault((match.lon, match.lat, match.object_id), []).append(number)
    markers: list[Markup] = []
    for (lon, lat, _), numbers in sorted(rows.items()):
        if not projection.inside(np.array(lon), np.array(lat)):
            continue
        text = matches[numbers[0]].text
        markers.append(
            element(
                "path",
                d=f"M{float(projection.x(lon)):.2f} {float(projection.y(lat)):.2f}h0",
                class_="match",
                role="button",
                tabindex=-1 if markers else 0,
                aria_label=f"{counted(len(numbers), 'match', 'matches')}: {text}",
                data_tip=text,
                data_rows=" ".join(map(str, numbers)),
            )
        )
    return markers
