"""Regions of subscriptions: a box or a circle over WGS84 longitudes and latitudes, plain numbers in degrees."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pststream.errors import UsageError

EARTH_RADIUS_M = 6_371_008.8
"""Mean radius of the Earth (IUGG), metres."""

Box = tuple[float, float, float, float]
Circle = tuple[float, float, float]

# Far above the rounding of the haversine formula (1e-8 degrees), far below what would cost candidates.
_PAD = 1e-6
_NEAR_POLE = 1e-4
_NEAR_HALF_TURN = math.pi - 1e-4


class RegionError(UsageError):
    """A region that cannot be read; `field` is `bbox` or `circle`, `reason` says what is wrong with it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


@dataclass(frozen=True)
class Region:
    """One or two boxes (west, south, east, north), and the circle (lon, lat, metres) that they enclose, if any.

    Without a circle the boxes are the region. Edges belong to it.
    """

    boxes: tuple[Box, ...]
    circle: Circle | None = None


def read_region(bbox: Any = None, circle: Any = None) -> Region:
    """The region of a request that gives one of `bbox` and `circle`; raises RegionError."""
    if bbox is not None and circle is not None:
        raise RegionError("bbox", "given beside circle: one of the two is wanted")
    if bbox is not None:
        return read_bbox(bbox)
    if circle is not None:
        return read_circle(circle)
    raise RegionError("bbox", "missing, and no circle is given")


def read_bbox(bbox: Any) -> Region:
    """The region of [west, south, east, north]; west > east crosses the antimeridian. Raises RegionError."""
    if not isinstance(bbox, Sequence) or isinstance(bbox, str) or len(bbox) != 4:
        raise RegionError("bbox", "not a list of four numbers: west, south, east, north")
    west, east = (_number("bbox", name, bbox[at], 180.0) for name, at in (("west", 0), ("east", 2)))
    south, north = (_number("bbox", name, bbox[at], 90.0) for name, at in (("south", 1), ("north", 3)))
    if south > north:
        raise RegionError("bbox", f"south {south:g} is greater than north {north:g}")
    if west <= east:
        return Region(((west, south, east, north),))
    return Region(((west, south, 180.0, north), (-180.0, south, east, north)))


def read_circle(circle: Any) -> Region:
    """The region of {"lon", "lat", "radius_m"}; raises RegionError."""
    if not isinstance(circle, Mapping):
        raise RegionError("circle", "not an object with lon, lat and radius_m")
    for name in ("lon", "lat", "radius_m"):
        if circle.get(name) is None:
            raise RegionError("circle", f"{name} is missing")
    lon = _number("circle", "lon", circle["lon"], 180.0)
    lat = _number("circle", "lat", circle["lat"], 90.0)
    radius_m = _number("circle", "radius_m", circle["radius_m"], math.inf)
    if radius_m < 0:
        raise RegionError("circle", f"radius_m {radius_m:g} is negative")
    return Region(_boxes_around(lon, lat, radius_m), (lon, lat, radius_m))


def contains(region: Region, lon: float, lat: float) -> bool:
    """Whether the point lies in the region: the slow and obvious twin of the kernel's test."""
    if region.circle is not None:
        return haversine_m(region.circle[0], region.circle[1], lon, lat) <= region.circle[2]
    return any(west <= lon <= east and south <= lat <= north for west, south, east, north in region.boxes)


def haversine_m(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Great-circle distance in metres; the kernels do the same operations in the same order."""
    lon1, lat1, lon2, lat2 = math.radians(lon1), math.radians(lat1), math.radians(lon2), math.radians(lat2)
    a = math.sin((lat2 - lat1) / 2.0) ** 2
    a += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2.0) ** 2
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a)))


def _number(field: str, name: str, value: Any, limit: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RegionError(field, f"{name} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RegionError(field, f"{name} is not a finite number")
    if abs(number) > limit:
        raise RegionError(field, f"{name} {number:.15g} is outside -{limit:g}..{limit:g}")
    return number


def _boxes_around(lon: float, lat: float, radius_m: float) -> tuple[Box, ...]:
    """Boxes that hold every point of the circle: all longitudes where a pole is in it, or as good as."""
    angle = radius_m / EARTH_RADIUS_M
    if angle >= _NEAR_HALF_TURN:
        return ((-180.0, -90.0, 180.0, 90.0),)
    reach = math.degrees(angle) + _PAD
    south, north = max(-90.0, lat - reach), min(90.0, lat + reach)
    if abs(lat) + reach >= 90.0 - _NEAR_POLE:
        return ((-180.0, south, 180.0, north),)
    half = math.degrees(math.asin(min(1.0, math.sin(angle) / math.cos(math.radians(lat))))) + _PAD
    west, east = lon - half, lon + half
    if west < -180.0:
        return ((west + 360.0, south, 180.0, north), (-180.0, south, east, north))
    if east > 180.0:
        return ((west, south, 180.0, north), (-180.0, south, east - 360.0, north))
    return ((west, south, east, north),)
