"""The shape polygon (`geometry` of a request, GeoJSON, RFC 7946): parse, cut into pieces, test a point, describe, draw.

Edges are straight in degrees, and a polygon may have holes. The numbers of a region are its rings, each lon, lat, lon,
lat ... with the first position again at the end; exteriors run counter-clockwise, and each is followed by its holes,
which run clockwise.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base.arrays import distinct_values, is_among, offsets_of
from pststream.base.arrow_columns import Column, lists
from pststream.queries.raw_fields import RawField, RawPolygons
from pststream.queries.shapes.contract import (
    EARTH_RADIUS_M,
    MERIDIAN,
    Box,
    Pieces,
    Region,
    RegionError,
    RegionLimits,
    Regions,
    haversine_of_arrays,
    matched_lon,
    metres,
    read_number,
)

NAME = "polygon"
FIELD = "geometry"
REQUEST_COLUMN: Column | None = Column(
    "polygon",
    pa.list_(pa.list_(pa.float64())),
    "insert: rings, lon, lat ... each, exteriors counter-clockwise, holes clockwise; null for other shapes",
    True,
)
PIECE_COLUMN: Column | None = Column(
    "polygon_edges",
    pa.list_(pa.float64()),
    "x1, y1, x2, y2 of each edge that decides in the box; null for other shapes, and where the box decides",
    True,
)
CODE = 2

Ring = list[tuple[float, float]]

_TYPES = ("Polygon", "MultiPolygon")
_ADVICE = {
    "Feature": 'give its "geometry"',
    "FeatureCollection": 'give the "geometry" of one of its features, or join them into a MultiPolygon',
    "GeometryCollection": "join its polygons into a MultiPolygon",
}
_CRS84 = ("urn:ogc:def:crs:OGC:1.3:CRS84", "urn:ogc:def:crs:OGC::CRS84")
_METRES_A_DEGREE = math.radians(EARTH_RADIUS_M)
_CUT = "cut a region that crosses the antimeridian there into a MultiPolygon (RFC 7946, 3.1.9)"
_CUT_OR_ADD = f"{_CUT}, or add a position to an edge that is meant to be so long"


def read(value: Any, limits: RegionLimits) -> Region:
    """The region of a Polygon or a MultiPolygon; nothing is repaired."""
    if not isinstance(value, Mapping):
        raise _fault("not a GeoJSON object with type and coordinates")
    kind, coordinates = value.get("type"), value.get("coordinates")
    if not isinstance(kind, str) or kind not in _TYPES:
        shown = repr(kind[:40]) if isinstance(kind, str) else "missing" if kind is None else "no text"
        advice = f"; {_ADVICE[kind]}" if isinstance(kind, str) and kind in _ADVICE else ""
        raise _fault(f"type is {shown}: Polygon or MultiPolygon is expected{advice}")
    _check_reference_system(value.get("crs"))
    _check_vertices(coordinates, 2 if kind == "Polygon" else 3, limits.max_polygon_vertices)
    listed = [coordinates] if kind == "Polygon" else _list(coordinates, "coordinates", "polygons")
    polygons = [_rings(rings, f"polygon {n}, " if kind != "Polygon" else "") for n, rings in enumerate(listed, 1)]
    oriented = _validated(polygons)
    boxes = tuple(_bounding_box(rings[0]) for rings in oriented)
    numbers = tuple(_flat(ring) for rings in oriented for ring in rings)
    return Region(boxes, NAME, numbers)


def read_column(field: RawField, limits: RegionLimits) -> Regions:
    """The regions of many Polygons and MultiPolygons that are valid."""
    return check_polygons(field.polygons(limits.longest_text), limits.max_polygon_vertices)


def cut(boxes: pa.RecordBatch, numbers: pa.Array | None) -> Pieces:
    """Cut regions where it pays (kernels/matching/cut_polygon.py); a piece has the edges of its exact test.

    A region with positions at -180 degrees or at a pole has its points at MERIDIAN in a piece of their own.
    """
    from pststream.kernels.matching.cut_polygon import cut_polygons

    assert numbers is not None
    rings = numbers.flatten()
    rings_of, positions = numbers.value_lengths().to_numpy(), rings.value_lengths().to_numpy() // 2
    points = rings.flatten().to_numpy().reshape(-1, 2)
    counts, cut_boxes, offsets, edges = cut_polygons(offsets_of(rings_of), offsets_of(positions), points)
    column = pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(edges), mask=pa.array(offsets[1:] == offsets[:-1])
    )
    regions, ring = np.arange(len(numbers)), np.repeat(np.arange(len(rings)), positions)
    owner = np.repeat(regions, counts)
    rows, own_boxes, own_edges = _cut_meridian(np.repeat(regions, rings_of)[ring], ring, points)
    cut_boxes[is_among(owner, rows) & (cut_boxes[:, 2] == MERIDIAN), 2] = np.nextafter(MERIDIAN, 0.0)
    order = np.argsort(np.concatenate([owner, rows]), kind="stable")
    column = pa.concat_arrays([column, own_edges]).take(pa.array(order))
    return Pieces(np.concatenate([owner, rows])[order], np.concatenate([cut_boxes, own_boxes])[order], column)


def _cut_meridian(region: np.ndarray, ring: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """Return the points at MERIDIAN of the regions that have positions at -180 degrees or at a pole: the region of each
    piece, ascending; its box; and its edges, one from each position there, to the next one or to itself.

    region, ring, points   int64[n], int64[n], float64[n,2]: all positions
    """
    lon, lat = points.T
    is_there = matched_lon(lon, lat) == MERIDIAN
    wanted = distinct_values(region[is_there & (lon != MERIDIAN)])
    first = np.flatnonzero(is_there & is_among(region, wanted))
    follows = np.minimum(first + 1, len(points) - 1)
    along = (ring[follows] == ring[first]) & (lon[follows] == lon[first]) & (np.abs(lon[first]) == MERIDIAN)
    last = np.where(along, follows, first)
    starts, meridian = np.searchsorted(region[first], wanted), np.full(len(first), MERIDIAN)
    south, north = (by.reduceat(lat[first], starts) if len(first) else lat[:0] for by in (np.minimum, np.maximum))
    boxes = np.column_stack([meridian[starts], south, meridian[starts], north])
    edges = np.column_stack([meridian, lat[first], meridian, lat[last]])
    return wanted, boxes, lists(4 * np.append(starts, len(first)), edges.ravel())


def contains(region: Region, lon: float, lat: float) -> bool:
    """Whether the point is on an edge, or a ray to the east crosses the boundary an odd number of times.

    Computed with fractions, so that nothing is rounded.
    """
    if abs(lat) == 90.0:
        return any(lat in ring[1::2] for ring in region.numbers)
    return any(_contains(region, x, lat) for x in ((lon, -lon) if abs(lon) == MERIDIAN else (lon,)))


def _contains(region: Region, lon: float, lat: float) -> bool:
    x, y = Fraction(lon), Fraction(lat)
    crossings = 0
    for x1, y1, x2, y2 in _edges(region):
        if not min(y1, y2) <= lat <= max(y1, y2) or lon > max(x1, x2):
            continue
        if y1 == y2:
            if min(x1, x2) <= lon:
                return True
            continue
        crossed = Fraction(x1) + (y - Fraction(y1)) * (Fraction(x2) - Fraction(x1)) / (Fraction(y2) - Fraction(y1))
        if crossed == x:
            return True
        crossings += crossed > x and min(y1, y2) <= lat < max(y1, y2)
    return crossings % 2 == 1


def outside(region: Region, lon: float, lat: float) -> str:
    """About how far away the nearest edge is."""
    return f"{metres(distance_to_edge(region, lon, lat))} from its nearest edge"


def distance_to_edge(region: Region, lon: float, lat: float) -> float:
    """Return about the metres from a point to the nearest edge, the way over a pole or the antimeridian included.

    Edges are straight in degrees, so that no formula gives the distance: it is sampled along the edges that may be the
    nearest, and again between the neighbours of the nearest samples. A local minimum may be missed on an edge of many
    degrees near a pole.
    """
    x1, y1, x2, y2 = np.array(list(_edges(region))).T
    first, last = np.zeros(len(x1)), np.ones(len(x1))
    for samples in (5, 65, 65, 65):
        along = first + (last - first) * np.linspace(0.0, 1.0, samples)[:, None]
        away = haversine_of_arrays(lon, lat, x1 + along * (x2 - x1), y1 + along * (y2 - y1))
        # An edge whose samples lie further away than half of their spacing allows is not the nearest.
        spacing = np.hypot(x2 - x1, y2 - y1) * (last - first) / (samples - 1) * _METRES_A_DEGREE
        near = away.min(axis=0) - spacing / 2 <= away.min()
        x1, y1, x2, y2, along, index = x1[near], y1[near], x2[near], y2[near], along[:, near], away.argmin(axis=0)[near]
        column = np.arange(len(index))
        first, last = along[np.maximum(index - 1, 0), column], along[np.minimum(index + 1, samples - 1), column]
    return float(away.min())


def describe(region: Region) -> str:
    """How many polygons, holes and corners, and where."""
    exteriors = len(region.boxes)
    holes, corners = len(region.numbers) - exteriors, sum(len(ring) // 2 - 1 for ring in region.numbers)
    west, south = (min(box[side] for box in region.boxes) for side in (0, 1))
    east, north = (max(box[side] for box in region.boxes) for side in (2, 3))
    what = "polygon" if exteriors == 1 else f"{exteriors} polygons"
    with_holes = f" and {holes} hole{'s' if holes > 1 else ''}" if holes else ""
    return (
        f"{what} with {corners} corners{with_holes} between west {west:.9g}, south {south:.9g}, east {east:.9g},"
        f" north {north:.9g}"
    )


def to_json(region: Region) -> dict[str, Any]:
    """The GeoJSON object: a Polygon, or a MultiPolygon of several."""
    polygons: list[list[list[list[float]]]] = []
    for ring in region.numbers:
        positions = [list(position) for position in zip(ring[0::2], ring[1::2])]
        if turns_left(ring):
            polygons.append([])
        polygons[-1].append(positions)
    if len(polygons) == 1:
        return {"type": "Polygon", "coordinates": polygons[0]}
    return {"type": "MultiPolygon", "coordinates": polygons}


def outline(region: Region) -> list[np.ndarray]:
    """The rings, holes among them."""
    return [np.array(ring).reshape(-1, 2) for ring in region.numbers]


def _fault(reason: str) -> RegionError:
    return RegionError(FIELD, reason)


def _check_reference_system(crs: Any) -> None:
    """Reject reference systems other than WGS84, which GeoJSON before RFC 7946 could name in `crs`."""
    if crs is None:
        return
    properties = crs.get("properties") if isinstance(crs, Mapping) else None
    name = properties.get("name") if isinstance(properties, Mapping) else None
    if name not in _CRS84:
        raise _fault("crs is not that of RFC 7946: leave it out, and give WGS84 longitude and latitude")


def _check_vertices(value: Any, depth: int, limit: int) -> None:
    """Stop at the first list that has more positions than allowed, before anything else reads them."""
    left = limit
    level: list[Any] = [value]
    for _ in range(depth - 1):
        level = [part for parts in level if _is_list(parts) for part in parts[: limit + 1]][: limit + 1]
    for ring in level:
        left -= len(ring) if _is_list(ring) else 0
        if left < 0:
            raise _fault(f"more than {limit:,} vertices; the setting max_polygon_vertices bounds them")


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _list(value: Any, name: str, of: str) -> Sequence[Any]:
    if not _is_list(value):
        raise _fault(f"{name} is not a list of {of}")
    if not len(value):
        raise _fault(f"{name} is empty")
    return value


def _rings(value: Any, place: str) -> list[Ring]:
    name = f"{place}coordinates" if place else "coordinates"
    return [_ring(ring, f"{place}ring {n}") for n, ring in enumerate(_list(value, name, "rings"), 1)]


def _ring(value: Any, name: str) -> Ring:
    positions = [
        _position(position, f"{name}, position {n}") for n, position in enumerate(_list(value, name, "positions"), 1)
    ]
    if len(positions) < 4:
        raise _fault(f"{name} has {len(positions)} positions; a ring has four or more, the first again at the end")
    if positions[0] != positions[-1]:
        raise _fault(f"{name} is not closed: its last position is not its first")
    long = np.flatnonzero(_are_long(np.array(positions)))
    if len(long):
        start, stop = positions[long[0]], positions[long[0] + 1]
        raise _fault(
            f"{name}: the edge from position {long[0] + 1} to {long[0] + 2} spans {abs(stop[0] - start[0]):.9g} degrees"
            f" of longitude, the long way round; {_CUT_OR_ADD}"
        )
    return positions


def _are_long(points: np.ndarray) -> np.ndarray:
    """Return which edges from one of the positions (float64[n,2]) to the next span more than 180 degrees of longitude,
    and are neither a whole parallel nor at a pole: bool[n-1].
    """
    with np.errstate(invalid="ignore"):  # infinite numbers have other faults
        wide, lat = np.abs(np.diff(points[:, 0])), points[:, 1]
    whole = (lat[1:] == lat[:-1]) & ((wide == 360.0) | (np.abs(lat[1:]) == 90.0))
    return (wide > 180.0) & ~whole


def _position(value: Any, name: str) -> tuple[float, float]:
    if not _is_list(value) or len(value) not in (2, 3):
        nested = "perhaps with an altitude; are the rings nested as its type has them?"
        raise _fault(f"{name} is not a list of longitude and latitude, {nested}")
    if len(value) == 3:
        read_number(FIELD, f"{name}: altitude", value[2], math.inf)
    lon = read_number(FIELD, f"{name}: longitude", value[0], 180.0, f"; {_CUT}")
    return lon, read_number(FIELD, f"{name}: latitude", value[1], 90.0)


def _validated(polygons: list[list[Ring]]) -> list[list[Ring]]:
    """The polygons with exteriors counter-clockwise and holes clockwise; raises RegionError for invalid ones."""
    import shapely

    made = [shapely.Polygon(rings[0], rings[1:]) for rings in polygons]
    whole = made[0] if len(made) == 1 else shapely.MultiPolygon(made)
    if not whole.is_valid:
        raise _fault(f"not a valid polygon: {shapely.is_valid_reason(whole)}")
    return [
        [ring if turns_left(_flat(ring)) == (index == 0) else ring[::-1] for index, ring in enumerate(rings)]
        for rings in polygons
    ]


def turns_left(ring: Sequence[float]) -> bool:
    """Whether a closed ring (lon, lat, lon, lat ...) is counter-clockwise: the sign of its area."""
    x, y = np.array(ring[0::2]) - ring[0], np.array(ring[1::2]) - ring[1]
    terms = np.concatenate([x[:-1] * y[1:], -x[1:] * y[:-1]])
    area, error = float(terms.sum()), 1e-12 * float(np.abs(terms).sum())
    if abs(area) > error:
        return area > 0
    corners = [(Fraction(lon), Fraction(lat)) for lon, lat in zip(ring[0::2], ring[1::2])]
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(corners, corners[1:])) > 0


def _flat(ring: Ring) -> tuple[float, ...]:
    return tuple(degrees for position in ring for degrees in position)


def _bounding_box(ring: Ring) -> Box:
    lons, lats = zip(*ring)
    return min(lons), min(lats), max(lons), max(lats)


def _edges(region: Region) -> Iterator[tuple[float, float, float, float]]:
    """The edges of all rings, without edges of length 0."""
    for ring in region.numbers:
        for x1, y1, x2, y2 in zip(ring[0:-2:2], ring[1:-2:2], ring[2::2], ring[3::2]):
            if (x1, y1) != (x2, y2):
                yield x1, y1, x2, y2


# Many regions at once, with kernels and functions of Shapely for arrays


def check_polygons(raw: RawPolygons, most_vertices: int) -> Regions:
    """Return the regions of the valid polygons; `read` reports the fault of the others, one by one."""
    from pststream.kernels.matching.cut_polygon import bounding_boxes, turned_rings

    sound = _select(raw, raw.read & _are_sound(raw, most_vertices))
    valid = _select(sound, _are_valid(sound))
    exteriors = valid.rings[:-1]
    points = turned_rings(valid.positions, valid.points, _are_turned(valid))
    return Regions(
        valid.read,
        np.repeat(np.arange(len(valid.read)), np.diff(valid.polygons)),
        bounding_boxes(valid.positions, points, exteriors),
        _as_column(valid, points),
    )


def _are_sound(raw: RawPolygons, most_vertices: int) -> np.ndarray:
    """Return which rows have polygons, in each of them rings, and at most so many positions: bool[n]."""
    from pststream.kernels.matching.cut_polygon import are_rings

    counts, rings = np.diff(raw.polygons), np.diff(raw.rings)
    vertices = np.diff(raw.positions[raw.rings[raw.polygons]])
    row_of_polygon = np.repeat(np.arange(len(counts)), counts)
    row_of_ring = np.repeat(row_of_polygon, rings)
    sound = (counts > 0) & (vertices <= most_vertices)
    sound[row_of_polygon[rings == 0]] = False
    sound[row_of_ring[~are_rings(raw.positions, raw.points)]] = False
    ring = np.repeat(np.arange(len(row_of_ring)), np.diff(raw.positions))
    sound[row_of_ring[ring[:-1][(ring[1:] == ring[:-1]) & _are_long(raw.points)]]] = False
    return sound


def _select(raw: RawPolygons, rows: np.ndarray) -> RawPolygons:
    """Return the polygons of some rows (bool[n]); the other rows have none and are not read."""
    if rows.all():
        return raw
    polygons = np.repeat(rows, np.diff(raw.polygons))
    rings = np.repeat(polygons, np.diff(raw.rings))
    positions = np.repeat(rings, np.diff(raw.positions))
    return RawPolygons(
        raw.read & rows,
        offsets_of(np.diff(raw.polygons) * rows),
        offsets_of(np.diff(raw.rings)[polygons]),
        offsets_of(np.diff(raw.positions)[rings]),
        raw.points[positions],
    )


def _are_valid(raw: RawPolygons) -> np.ndarray:
    """Return which rows are valid geometries: bool[n]; a row of one polygon is a Polygon."""
    import shapely

    counts, valid = np.diff(raw.polygons), raw.read.copy()
    if not len(raw.points):
        return valid
    made = shapely.from_ragged_array(shapely.GeometryType.POLYGON, raw.points, (raw.positions, raw.rings))
    valid[counts == 1] = shapely.is_valid(made[raw.polygons[:-1][counts == 1]])
    several = counts > 1
    if several.any():
        ordinal = np.cumsum(several) - 1
        together = shapely.multipolygons(made[np.repeat(several, counts)], indices=np.repeat(ordinal, counts * several))
        valid[several] = shapely.is_valid(together)
    return valid


def _are_turned(raw: RawPolygons) -> np.ndarray:
    """Return which rings are to be reversed, exteriors to counter-clockwise and holes to clockwise: bool[rings]."""
    from pststream.kernels.matching.cut_polygon import signed_areas

    areas, errors = signed_areas(raw.positions, raw.points)
    left = areas > 0
    for ring in np.flatnonzero(np.abs(areas) <= errors).tolist():
        left[ring] = turns_left(raw.points[raw.positions[ring] : raw.positions[ring + 1]].ravel().tolist())
    is_exterior = np.zeros(len(areas), bool)
    is_exterior[raw.rings[:-1]] = True
    return left != is_exterior


def _as_column(raw: RawPolygons, points: np.ndarray) -> pa.Array:
    """The values of REQUEST_COLUMN: the rings of each row, null for a row that is not read."""
    rings = pa.ListArray.from_arrays(pa.array((2 * raw.positions).astype(np.int32)), pa.array(points.ravel()))
    offsets = pa.array(raw.rings[raw.polygons].astype(np.int32))
    return pa.ListArray.from_arrays(offsets, rings, mask=pa.array(~raw.read))
