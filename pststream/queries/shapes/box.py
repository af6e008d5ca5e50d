"""The shape box (`bbox` of a request): parse, cut into index pieces, test a point, describe, draw; degrees."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrow_columns import Column
from pststream.queries.raw_fields import RawField
from pststream.queries.shapes.contract import (
    MERIDIAN,
    Box,
    Pieces,
    Region,
    RegionError,
    RegionLimits,
    Regions,
    haversine_m,
    metres,
    read_number,
)

NAME = "box"
FIELD = "bbox"
REQUEST_COLUMN: Column | None = None
PIECE_COLUMN: Column | None = None
CODE = 0

SIDES = ("west", "south", "east", "north")


def read(value: Any, limits: RegionLimits) -> Region:
    """The region of [west, south, east, north]; west > east crosses the antimeridian."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 4:
        raise RegionError(FIELD, "not a list of four numbers: west, south, east, north")
    west, east = (read_number(FIELD, name, value[at], 180.0) for name, at in (("west", 0), ("east", 2)))
    south, north = (read_number(FIELD, name, value[at], 90.0) for name, at in (("south", 1), ("north", 3)))
    if south > north:
        raise RegionError(FIELD, f"south {south:g} is greater than north {north:g}")
    if west <= east:
        return Region(((west, south, east, north),))
    return Region(((west, south, 180.0, north), (-180.0, south, east, north)))


def read_column(field: RawField, limits: RegionLimits) -> Regions:
    """The regions of many lists of four numbers."""
    sides, parsed = field.number_lists(4)
    west, south, east, north = sides.T
    parsed &= (np.maximum(np.abs(west), np.abs(east)) <= 180.0) & (np.maximum(-south, north) <= 90.0) & (south <= north)
    crosses = (west > east) & parsed
    # A box that crosses the antimeridian is followed by its eastern part.
    owner = np.repeat(np.arange(len(parsed)), parsed + crosses.astype(np.int64))
    boxes = sides[owner]
    second = np.flatnonzero(owner[1:] == owner[:-1]) + 1
    boxes[second - 1, 2], boxes[second, 0] = 180.0, -180.0
    return Regions(parsed, owner, boxes)


def cut(boxes: pa.RecordBatch, numbers: pa.Array | None) -> Pieces:
    """One piece for each box of a region; and one without width at MERIDIAN if the region ends at -180 degrees or at a
    pole, and has none there. The boxes of a region have the same south and north.
    """
    lengths = pc.fill_null(pc.list_value_length(boxes.column("west")), 0).to_numpy()
    owner = np.repeat(np.arange(len(lengths)), lengths)
    # `flatten` respects the slice that a batch may be.
    sides = np.column_stack([boxes.column(side).flatten().to_numpy() for side in SIDES])
    west, south, east, north = sides.T
    has_meridian = np.zeros(len(lengths), bool)
    has_meridian[owner[east == MERIDIAN]] = True
    has_west = west == -MERIDIAN
    lacks, parts = ~has_meridian[owner], [sides]
    at_west, at_south, at_north = (
        np.flatnonzero(lacks & ends) for ends in (has_west, ~has_west & (south == -90.0), ~has_west & (north == 90.0))
    )
    for rows, lowest, highest in ((at_west, south, north), (at_south, south, south), (at_north, north, north)):
        meridian = np.full(len(rows), MERIDIAN)
        parts.append(np.column_stack([meridian, lowest[rows], meridian, highest[rows]]))
    owner = np.concatenate([owner, owner[at_west], owner[at_south], owner[at_north]])
    order = np.argsort(owner, kind="stable")
    return Pieces(owner[order], np.concatenate(parts)[order])


def contains(region: Region, lon: float, lat: float) -> bool:
    """Whether one of the boxes contains the point."""
    lons = (lon, -lon) if abs(lon) == MERIDIAN else (lon,)
    return any(
        south <= lat <= north and (abs(lat) == 90.0 or any(west <= x <= east for x in lons))
        for west, south, east, north in region.boxes
    )


def outside(region: Region, lon: float, lat: float) -> str:
    """Say on which side of the nearest box the point lies, and about how far away."""
    return min((_distance_to_box(box, lon, lat) for box in region.boxes), key=lambda distance: distance[0])[1]


def describe(region: Region) -> str:
    """The four sides."""
    west, south, east, north = to_json(region)
    return f"box: west {west:.9g}, south {south:.9g}, east {east:.9g}, north {north:.9g}"


def to_json(region: Region) -> list[float]:
    """[west, south, east, north]."""
    west, south, _, north = region.boxes[0]
    return [west, south, region.boxes[-1][2], north]


def outline(region: Region) -> list[np.ndarray]:
    """The four sides of each box."""
    return [np.array([(w, n), (e, n), (e, s), (w, s), (w, n)]) for w, s, e, n in region.boxes]


def _distance_to_box(box: Box, lon: float, lat: float) -> tuple[float, str]:
    """About how far the point is from the box, in metres, and on which side."""
    west, south, east, north = box
    sides = []
    if lat > north:
        sides.append(f"{lat - north:.6g} degrees north of its north edge {north:.9g}")
    if lat < south:
        sides.append(f"{south - lat:.6g} degrees south of its south edge {south:.9g}")
    x, y = lon, min(max(lat, south), north)
    if not west <= lon <= east:
        to_west, to_east = (west - lon) % 360.0, (lon - east) % 360.0
        x = west if to_west < to_east else east
        side = f"west of its west edge {west:.9g}" if to_west < to_east else f"east of its east edge {east:.9g}"
        sides.append(f"{min(to_west, to_east):.6g} degrees {side}")
    away = haversine_m(lon, lat, x, y)
    return away, f"{' and '.join(sides)}, about {metres(away)} away"
