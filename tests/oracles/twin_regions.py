"""Read boxes, circles and polygons, and compute distances: the part of `twin.py` on regions."""

import json
import math
from collections.abc import Iterable
from typing import Any

from tests.oracles.polygon import covers_geometry, crosses_itself
from tests.oracles.twin_rows import BadRow, number

EARTH_RADIUS_M = 6_371_008.8


def lons_of(lon: float, lat: float, among: Iterable[float] = ()) -> tuple[float, ...]:
    """Return the longitudes of a point: those given, if it is a pole, which has all; two on the antimeridian."""
    if lat in (-90, 90):
        return lon, *among
    return (180.0, -180.0) if lon in (-180, 180) else (lon,)


def in_box(lon: float, lat: float, west: float, south: float, east: float, north: float) -> bool:
    """Whether a point lies in a box, edges included; west > east crosses the antimeridian."""
    if not south <= lat <= north:
        return False
    if west <= east:
        return any(west <= x <= east for x in lons_of(lon, lat, (west,)))
    return any(x >= west or x <= east for x in lons_of(lon, lat, (west,)))


def in_geometry(lon: float, lat: float, geometry: dict[str, Any]) -> bool:
    """Whether a point lies in a GeoJSON Polygon or MultiPolygon, edges included."""
    corners = [x for rings in polygons_of(geometry) for ring in rings for x, *_ in ring]
    return any(covers_geometry(geometry, x, lat) for x in lons_of(lon, lat, corners))


def distance_m(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Compute the great-circle distance in metres by the haversine formula, from longitude 180 where points have
    several.
    """
    lon1, lon2 = (max(lons_of(lon, lat, (180.0,))) for lon, lat in ((lon1, lat1), (lon2, lat2)))
    phi1, phi2 = math.radians(lat1), math.radians(lat2)
    half_lat = (phi2 - phi1) / 2
    half_lon = math.radians(lon2 - lon1) / 2
    h = math.sin(half_lat) ** 2 + math.cos(phi1) * math.cos(phi2) * math.sin(half_lon) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(math.sqrt(min(1.0, h)))


def read_box(value: Any) -> tuple[float, float, float, float]:
    """Read west, south, east, north."""
    if not isinstance(value, list) or len(value) != 4:
        raise BadRow("a bbox has four numbers")
    west, east = (number(value[i], -180, 180) for i in (0, 2))
    south, north = (number(value[i], -90, 90) for i in (1, 3))
    if south > north:
        raise BadRow("south above north")
    return west, south, east, north


def read_circle(value: Any) -> tuple[float, float, float]:
    """Read longitude, latitude, radius in metres."""
    if not isinstance(value, dict):
        raise BadRow("a circle has lon, lat and radius_m")
    radius = number(value.get("radius_m"), 0, 1e300)
    return number(value.get("lon"), -180, 180), number(value.get("lat"), -90, 90), radius


def read_geometry(value: Any) -> dict[str, Any]:
    """A Polygon or a MultiPolygon, of an object or its text; of the invalid ones, rings that cross themselves."""
    value = json.loads(value) if isinstance(value, str) else value
    if not isinstance(value, dict) or value.get("type") not in ("Polygon", "MultiPolygon") or not value["coordinates"]:
        raise BadRow("neither a Polygon nor a MultiPolygon")
    for rings in polygons_of(value):
        for ring in rings:
            for lon, lat in ring:
                number(lon, -180, 180), number(lat, -90, 90)
            if len(ring) < 4 or ring[0] != ring[-1] or crosses_itself(ring):
                raise BadRow("a ring is open, or crosses itself")
            for (x1, y1, *_), (x2, y2, *_) in zip(ring, ring[1:]):
                if abs(x1 - x2) > 180 and not (y1 == y2 and (abs(y1) == 90 or abs(x1 - x2) == 360)):
                    raise BadRow("an edge goes the long way round")
    return value


def polygons_of(geometry: dict[str, Any]) -> list[Any]:
    """Return the polygons, each a list of rings."""
    return [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]


def bounds_of(geometry: dict[str, Any]) -> tuple[float, float, float, float]:
    """Return west, south, east, north of all rings."""
    lons, lats = zip(*(position for rings in polygons_of(geometry) for ring in rings for position in ring))
    return min(lons), min(lats), max(lons), max(lats)
