"""Define the contract of a shape, the regions that shapes read, and great-circle distances in metres."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from pststream.base.arrow_columns import Column
from pststream.base.errors import UsageError
from pststream.queries.raw_fields import RawField

_MOST_TEXT_OF_VERTEX = 200

Box = tuple[float, float, float, float]
"""West, south, east, north; degrees."""


class RegionError(UsageError):
    """A region that cannot be read: `field` of the request, and `reason`, a sentence; `missing`: no field gives one."""

    def __init__(self, field: str, reason: str, missing: bool = False) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
        self.missing = missing


@dataclass(frozen=True)
class Region:
    """A region over WGS84 longitudes and latitudes in degrees; its edges belong to it.

    boxes    bounding boxes; together they contain the region
    shape    name of the shape (queries/shapes/registry.py)
    numbers  the numbers of the shape, as its module defines them; empty where the boxes are the region
    """

    boxes: tuple[Box, ...]
    shape: str = "box"
    numbers: tuple[Any, ...] = ()


@dataclass(frozen=True)
class RegionLimits:
    """Bounds on the regions that are read; `max_polygon_vertices` counts the positions of all rings of a region."""

    max_polygon_vertices: int = 1_000

    @property
    def longest_text(self) -> int:
        """Number of characters of a region's JSON text, above which it is not parsed."""
        return _MOST_TEXT_OF_VERTEX * (self.max_polygon_vertices + 10)


DEFAULT_LIMITS = RegionLimits()


def refuse_other_members(field: str, value: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise RegionError if an object has a member of another name, unless that is null."""
    other = next((str(name) for name in value if name not in names and value[name] is not None), None)
    if other is not None:
        raise RegionError(field, f"{other[:40]!r} is none of its members, which are {', '.join(names)}")


def read_number(field: str, name: str, value: Any, limit: float, advice: str = "") -> float:
    """A finite number between -limit and limit; raises RegionError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RegionError(field, f"{name} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RegionError(field, f"{name} is not a finite number")
    if abs(number) > limit:
        shown = f"{number:.15g}" if float(f"{number:.15g}") == number else repr(number)
        raise RegionError(field, f"{name} {shown} is outside -{limit:g}..{limit:g}{advice}")
    return number


class Pieces(NamedTuple):
    """The pieces that regions are cut into for the index: disjoint boxes, each with the numbers of its exact test.

    owner    int64[pieces]        index of the piece's region, ascending
    boxes    float64[pieces, 4]   west, south, east, north, degrees
    numbers  the values of the shape's PIECE_COLUMN, null where the box alone decides; None without such a column
    """

    owner: np.ndarray
    boxes: np.ndarray
    numbers: pa.Array | None = None


class Regions(NamedTuple):
    """The regions of n requests that a shape reads at once.

    parsed   bool[n]             which requests have such a region; the others are left to the row parser
    owner    int64[boxes]        the request of each bounding box, ascending; of parsed requests only
    boxes    float64[boxes, 4]   west, south, east, north, degrees
    numbers  n values of the shape's REQUEST_COLUMN, null where not parsed; None without such a column
    """

    parsed: np.ndarray
    owner: np.ndarray
    boxes: np.ndarray
    numbers: pa.Array | None = None


class Shape(Protocol):
    """A module of `shapes/`, or an object like it.

    NAME            of the shape, as in Region.shape
    FIELD           the field of a request that gives a region of this shape
    REQUEST_COLUMN  of the table `requests`: the numbers of a region, null in rows of other shapes; None if the boxes
                    are the region
    PIECE_COLUMN    of the table `worker_index`: the numbers of a piece's exact test, a list<double>, null in rows of
                    other shapes; None if the box of a piece decides
    CODE            of the exact test in kernels/matching/contains_point.py; 0 if the box of a piece decides
    """

    NAME: str
    FIELD: str
    REQUEST_COLUMN: Column | None
    PIECE_COLUMN: Column | None
    CODE: int

    def read(self, value: Any, limits: RegionLimits) -> Region:
        """The region that a request's field gives; raises RegionError."""

    def cut(self, boxes: pa.RecordBatch, numbers: pa.Array | None) -> Pieces:
        """The pieces of many regions: `boxes` as the columns west, south, east, north of `requests`, `numbers` as
        REQUEST_COLUMN. They contain the points of the antimeridian and of the poles by their `matched_lon`.
        """

    def contains(self, region: Region, lon: float, lat: float) -> bool:
        """Whether the point, by one of its longitudes if it has several, lies in the region: slow and obvious code
        without the kernels, to check their answers.
        """

    def outside(self, region: Region, lon: float, lat: float) -> str:
        """How far a point lies outside the region, in words."""

    def describe(self, region: Region) -> str:
        """The region in words."""

    def to_json(self, region: Region) -> Any:
        """The value of FIELD that gives this region."""

    def outline(self, region: Region) -> list[np.ndarray]:
        """Closed rings to draw, float64[n, 2] each: longitude, latitude. A point inside an odd number of
        rings is in the region.
        """


@runtime_checkable
class ColumnShape(Protocol):
    """What a module of `shapes/` may also have, for speed."""

    def read_column(self, field: RawField, limits: RegionLimits) -> Regions:
        """The regions that FIELD gives in many requests, as `read` reads each."""


MERIDIAN = 180.0
"""The longitude, in degrees, of all points of the antimeridian and of both poles, wherever points are compared."""


def matched_lon(lon: ArrayLike, lat: ArrayLike) -> np.ndarray:
    """Return the longitudes by which points are routed and matched: float64, of the shape of `lon` and `lat`, degrees.

    -180 and 180 are one meridian, and at a pole all longitudes are one place: there, it is MERIDIAN.
    """
    return np.where(np.equal(lon, -MERIDIAN) | (np.abs(lat) == 90.0), MERIDIAN, lon)


EARTH_RADIUS_M = 6_371_008.8
"""Mean radius of the Earth (IUGG), metres."""


def haversine_m(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Great-circle distance in metres of two points by their `matched_lon`, with which the kernels do the same
    operations in the same order.
    """
    lon1, lon2 = matched_lon([lon1, lon2], [lat1, lat2]).tolist()
    lon1, lat1, lon2, lat2 = math.radians(lon1), math.radians(lat1), math.radians(lon2), math.radians(lat2)
    a = math.sin((lat2 - lat1) / 2.0) ** 2
    a += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2.0) ** 2
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a)))


def haversine_of_arrays(lon1: float, lat1: float, lon2: np.ndarray, lat2: np.ndarray) -> np.ndarray:
    """Great-circle distances in metres from one point to many, as `haversine_m`, of the shape of `lon2` and `lat2`."""
    lon1, lon2 = matched_lon(lon1, lat1).item(), matched_lon(lon2, lat2)
    south, north = math.radians(lat1), np.radians(lat2)
    a = np.sin((north - south) / 2.0) ** 2
    a += math.cos(south) * np.cos(north) * np.sin(np.radians(lon2 - lon1) / 2.0) ** 2
    return 2.0 * EARTH_RADIUS_M * np.arcsin(np.minimum(1.0, np.sqrt(a)))


def metres(value: float) -> str:
    """A distance for a person to read, in metres or kilometres."""
    return f"{value / 1000:,.4g} km" if value >= 1000 else f"{value:.4g} m"
