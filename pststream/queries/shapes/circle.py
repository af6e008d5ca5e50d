"""The shape circle (`circle` of a request, radius along great circles): parse, index, test a point, describe, draw."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base.arrays import offsets_of
from pststream.base.arrow_columns import Column, lists
from pststream.queries.raw_fields import RawField
from pststream.queries.shapes import box
from pststream.queries.shapes.contract import (
    EARTH_RADIUS_M,
    Box,
    Pieces,
    Region,
    RegionError,
    RegionLimits,
    Regions,
    haversine_m,
    matched_lon,
    metres,
    read_number,
    refuse_other_members,
)

NAME = "circle"
FIELD = "circle"
MEMBERS = ("lon", "lat", "radius_m")
REQUEST_COLUMN: Column | None = Column(
    "circle", pa.list_(pa.float64()), "insert: lon, lat, radius in metres; null for other shapes", True
)
PIECE_COLUMN: Column | None = Column(
    "circle", pa.list_(pa.float64()), "lon, lat, radius in metres; null for other shapes", True
)
CODE = 1

_PAD = 1e-6
"""Degrees: far more than the rounding of the haversine formula (1e-8), and too little to add candidates."""
_NEAR_POLE = 1e-4
_NEAR_HALF_TURN = math.pi - 1e-4
_CORNERS = 48


def read(value: Any, limits: RegionLimits) -> Region:
    """The region of {"lon", "lat", "radius_m"}; its numbers are these three."""
    if not isinstance(value, Mapping):
        raise RegionError(FIELD, "not an object with lon, lat and radius_m")
    refuse_other_members(FIELD, value, MEMBERS)
    for name in MEMBERS:
        if value.get(name) is None:
            raise RegionError(FIELD, f"{name} is missing")
    lon = read_number(FIELD, "lon", value["lon"], 180.0)
    lat = read_number(FIELD, "lat", value["lat"], 90.0)
    radius_m = read_number(FIELD, "radius_m", value["radius_m"], math.inf)
    if radius_m < 0:
        raise RegionError(FIELD, f"radius_m {radius_m:g} is negative")
    return Region(_boxes_around(lon, lat, radius_m), NAME, (lon, lat, radius_m))


def read_column(field: RawField, limits: RegionLimits) -> Regions:
    """The regions of many objects with lon, lat and radius_m."""
    from pststream.kernels.matching.contains_point import boxes_around

    numbers, parsed = field.number_members(MEMBERS)
    lon, lat, radius_m = numbers.T
    parsed &= (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0) & (radius_m >= 0.0)
    circles = numbers[parsed]
    owner, boxes = boxes_around(circles)
    offsets = np.concatenate([[0], np.cumsum(3 * parsed)]).astype(np.int32)
    column = pa.ListArray.from_arrays(pa.array(offsets), pa.array(circles.ravel()), mask=pa.array(~parsed))
    return Regions(parsed, np.flatnonzero(parsed)[owner], boxes, column)


def cut(boxes: pa.RecordBatch, numbers: pa.Array | None) -> Pieces:
    """One piece for each bounding box, each with the numbers of the whole circle, its centre by its `matched_lon`."""
    assert numbers is not None
    owner, sides, _ = box.cut(boxes, None)
    circles = numbers.flatten().to_numpy().reshape(-1, 3)[owner]
    circles[:, 0] = matched_lon(circles[:, 0], circles[:, 1])
    return Pieces(owner, sides, lists(offsets_of(np.full(len(owner), 3)), circles.ravel()))


def contains(region: Region, lon: float, lat: float) -> bool:
    """Whether the point is at most the radius away from the centre."""
    return haversine_m(region.numbers[0], region.numbers[1], lon, lat) <= region.numbers[2]


def outside(region: Region, lon: float, lat: float) -> str:
    """Say how far the point is from the centre, and by how much that exceeds the radius."""
    away, radius = haversine_m(region.numbers[0], region.numbers[1], lon, lat), region.numbers[2]
    return f"{metres(away)} from the centre of a circle of {metres(radius)}, {metres(away - radius)} too far"


def describe(region: Region) -> str:
    """Radius and centre."""
    lon, lat, radius = region.numbers
    return f"circle of {radius:.9g} m around {lon:.9g}, {lat:.9g}"


def to_json(region: Region) -> dict[str, float]:
    """{"lon", "lat", "radius_m"}."""
    return dict(zip(("lon", "lat", "radius_m"), region.numbers))


def outline(region: Region) -> list[np.ndarray]:
    """Points on the circle; its bounding boxes where it crosses a pole or the antimeridian."""
    lon, lat, radius = region.numbers
    angle, y = min(radius / EARTH_RADIUS_M, math.pi / 2), math.radians(lat)
    turn = np.append(np.linspace(0, 2 * math.pi, _CORNERS, endpoint=False), 0.0)
    north = np.arcsin(np.clip(math.sin(y) * math.cos(angle) + math.cos(y) * math.sin(angle) * np.cos(turn), -1, 1))
    east = np.arctan2(np.sin(turn) * math.sin(angle) * math.cos(y), math.cos(angle) - math.sin(y) * np.sin(north))
    ring = np.column_stack([lon + np.degrees(east), np.degrees(north)])
    whole = np.abs(ring[:, 0]).max() < 180 and abs(lat) + math.degrees(radius / EARTH_RADIUS_M) < 90
    return [ring] if whole else box.outline(region)


def _boxes_around(lon: float, lat: float, radius_m: float) -> tuple[Box, ...]:
    """Boxes that contain every point of the circle; over all longitudes if a pole is inside or nearly so."""
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
