"""Define the contract of a shape: what its module provides to requests, tables, the index, explanations and maps."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from pststream.domain.raw_fields import RawField
from pststream.shapes.region import Region, RegionLimits


class ShapeColumn(NamedTuple):
    """A nullable column with the numbers of regions of one shape; it is null in rows of other shapes."""

    name: str
    type: pa.DataType
    meaning: str


class Pieces(NamedTuple):
    """The pieces that regions are cut into for the index: disjoint boxes, each with the numbers of its exact test.

    owner    int64[pieces]        place of the piece's region, ascending
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
    REQUEST_COLUMN  of the table `requests`: the numbers of a region; None if the boxes are the region
    PIECE_COLUMN    of the table `worker_index`: the numbers of a piece's exact test, a list<double>; None if the box of
                    a piece decides
    CODE            of the exact test in kernels/matching/shapes/contains_point.py; 0 if the box of a piece decides
    """

    NAME: str
    FIELD: str
    REQUEST_COLUMN: ShapeColumn | None
    PIECE_COLUMN: ShapeColumn | None
    CODE: int

    def read(self, value: Any, limits: RegionLimits) -> Region:
        """The region that a request's field gives; raises RegionError."""
        ...

    def cut(self, boxes: pa.RecordBatch, numbers: pa.Array | None) -> Pieces:
        """The pieces of many regions: `boxes` as the columns west, south, east, north of `requests`, `numbers` as
        REQUEST_COLUMN.
        """
        ...

    def contains(self, region: Region, lon: float, lat: float) -> bool:
        """Whether the point lies in the region: slow and obvious code without the kernels, to check their answers."""
        ...

    def outside(self, region: Region, lon: float, lat: float) -> str:
        """How far a point lies outside the region, in words."""
        ...

    def describe(self, region: Region) -> str:
        """The region in words."""
        ...

    def to_json(self, region: Region) -> Any:
        """The value of FIELD that gives this region."""
        ...

    def outline(self, region: Region) -> list[np.ndarray]:
        """Closed rings to draw, float64[n, 2] each: longitude, latitude. A point inside an odd number of
        rings is in the region.
        """
        ...


@runtime_checkable
class ColumnShape(Protocol):
    """What a module of `shapes/` may also have, for speed."""

    def read_column(self, field: RawField, limits: RegionLimits) -> Regions:
        """The regions that FIELD gives in many requests, as `read` reads each."""
        ...
