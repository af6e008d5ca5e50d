"""A shape for tests: all longitudes between two latitudes, in one module as each shape is."""

from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import Column
from pststream.queries.shapes import box
from pststream.queries.shapes.contract import Pieces, Region, RegionError, RegionLimits, read_number

NAME = "band"
FIELD = "band"
REQUEST_COLUMN: Column | None = None
PIECE_COLUMN: Column | None = None
CODE = 0


def read(value: Any, limits: RegionLimits) -> Region:
    """The region of [south, north]."""
    if not isinstance(value, list) or len(value) != 2:
        raise RegionError(FIELD, "not a list of two latitudes")
    south, north = (read_number(FIELD, name, latitude, 90.0) for name, latitude in zip(("south", "north"), value))
    if south > north:
        raise RegionError(FIELD, "south is greater than north")
    return Region(((-180.0, south, 180.0, north),), NAME)


def cut(boxes: pa.RecordBatch, numbers: pa.Array | None) -> Pieces:
    """One piece."""
    return box.cut(boxes, None)


def contains(region: Region, lon: float, lat: float) -> bool:
    """Whether the latitude is between the two."""
    return bool(region.boxes[0][1] <= lat <= region.boxes[0][3])


def outside(region: Region, lon: float, lat: float) -> str:
    """The latitude."""
    return f"latitude {lat:g} is not in the {describe(region)}"


def describe(region: Region) -> str:
    """The two latitudes."""
    return f"band from {region.boxes[0][1]:g} to {region.boxes[0][3]:g}"


def to_json(region: Region) -> list[float]:
    """[south, north]."""
    return [region.boxes[0][1], region.boxes[0][3]]


def outline(region: Region) -> list[np.ndarray]:
    """The box."""
    return box.outline(region)
