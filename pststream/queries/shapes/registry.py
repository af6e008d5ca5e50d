"""List the shapes, and parse, store, cut, test, describe or draw a region whatever its shape.

To add a shape, add a module (queries/shapes/contract.py), its exact test in `kernels/matching/contains_point.py` if
boxes do not decide, and a line in SHAPES.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base.arrays import concatenate_ranges, offsets_of
from pststream.base.arrow_columns import Column
from pststream.queries.decode_json import NestedTooDeeply, decode_json
from pststream.queries.raw_fields import ParsedColumns, RawFields
from pststream.queries.shapes import box, circle, polygon
from pststream.queries.shapes.contract import DEFAULT_LIMITS, ColumnShape, Region, RegionError, RegionLimits, Shape

SHAPES: tuple[Shape, ...] = (box, circle, polygon)
"""The first is the shape of regions that their boxes define completely."""

SIDES = box.SIDES
SIDE_MEANING = "insert: of each bounding box of the region, degrees"
REQUEST_COLUMNS = (
    *(Column(side, pa.list_(pa.float64()), SIDE_MEANING if side == "west" else "", True) for side in SIDES),
    *(shape.REQUEST_COLUMN for shape in SHAPES if shape.REQUEST_COLUMN),
)
"""Columns of the table `requests` that hold a region."""

PIECE_COLUMNS = (
    *(Column(s, pa.float64(), "the box, degrees; null in a deletion" if s == "west" else "", True) for s in SIDES),
    *(shape.PIECE_COLUMN for shape in SHAPES if shape.PIECE_COLUMN),
)
"""Columns of the table `worker_index` that hold a piece of a region."""


def request_fields() -> tuple[str, ...]:
    """Fields of a request; exactly one of them gives its region."""
    return tuple(shape.FIELD for shape in SHAPES)


def read_region(record: Mapping[str, Any], limits: RegionLimits = DEFAULT_LIMITS) -> Region:
    """Parse the region of a request from one of `request_fields`, a JSON value or its text; raises RegionError."""
    given = [shape for shape in SHAPES if record.get(shape.FIELD) not in (None, "")]
    if not given:
        one_of = _listed(request_fields(), "or")
        raise RegionError(SHAPES[0].FIELD, f"missing: an insertion has exactly one of {one_of}", missing=True)
    first = given[0]
    if len(given) > 1:
        fields, one_of = _listed((shape.FIELD for shape in given), "and"), _listed(request_fields(), "or")
        raise RegionError(first.FIELD, f"{fields} are given: an insertion has exactly one of {one_of}")
    return first.read(_decode(record[first.FIELD], first.FIELD, limits), limits)


def read_regions(fields: RawFields, limits: RegionLimits) -> ParsedColumns:
    """Parse the regions of many requests into REQUEST_COLUMNS, as `read_region` does each, if their shape can."""
    filled = [fields[shape.FIELD].filled for shape in SHAPES]
    given = np.sum(filled, axis=0)
    parsed, owners, boxes = np.zeros(len(given), bool), [np.empty(0, np.int64)], [np.empty((0, 4))]
    columns: dict[str, pa.Array] = {}
    for shape, has in zip(SHAPES, filled):
        if not isinstance(shape, ColumnShape) or not has.any():
            continue
        regions = shape.read_column(fields[shape.FIELD], limits)
        parsed |= regions.parsed & (given == 1)
        owners.append(regions.owner)
        boxes.append(regions.boxes)
        if shape.REQUEST_COLUMN:
            columns[shape.REQUEST_COLUMN.name] = regions.numbers
    owner, sides = np.concatenate(owners), np.concatenate(boxes)
    if len(owners) > 2:
        order = np.argsort(owner, kind="stable")
        owner, sides = owner[order], sides[order]
    offsets = pa.array(np.searchsorted(owner, np.arange(len(given) + 1)).astype(np.int32))
    for index, side in enumerate(SIDES):
        columns[side] = pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(sides[:, index])))
    return ParsedColumns(columns, parsed)


def to_columns(region: Region) -> dict[str, Any]:
    """The region's values in REQUEST_COLUMNS."""
    own = _shape_of(region).REQUEST_COLUMN
    values: dict[str, Any] = dict.fromkeys(column.name for column in REQUEST_COLUMNS)
    values.update(zip(SIDES, map(list, zip(*region.boxes))))
    if own:
        values[own.name] = list(region.numbers)
    return values


def from_columns(row: Mapping[str, Any]) -> Region:
    """The region of a row of `requests` that has the columns REQUEST_COLUMNS."""
    boxes = tuple(zip(*(row[side] or () for side in SIDES)))
    for shape in SHAPES:
        if shape.REQUEST_COLUMN and row.get(shape.REQUEST_COLUMN.name):
            return Region(boxes, shape.NAME, tuple(row[shape.REQUEST_COLUMN.name]))
    return Region(boxes)


def most_pieces(rows: pa.RecordBatch) -> np.ndarray:
    """Return how many pieces `cut_regions` makes of each region at most, 1 without a region: int64[n].

    Takes rows with the columns REQUEST_COLUMNS.
    """
    from pststream.kernels.matching.cut_polygon import MOST_PIECES

    most = np.maximum(np.bincount(box.cut(rows.select(SIDES), None).owner, minlength=rows.num_rows), 1)
    # A piece more where the region ends at the antimeridian or at a pole.
    most[rows.column(polygon.NAME).is_valid().to_numpy(zero_copy_only=False)] = MOST_PIECES + 1
    return most


def cut_regions(rows: pa.RecordBatch) -> tuple[np.ndarray, dict[str, pa.Array]]:
    """The pieces of the regions of many requests, for the index.

    Takes rows with the columns REQUEST_COLUMNS. Returns the row of each piece (int64[pieces], ascending) and the
    columns PIECE_COLUMNS.
    """
    owners, boxes, columns = [], [], []
    left = np.ones(rows.num_rows, bool)
    for shape in (*SHAPES[1:], SHAPES[0]):
        own = shape.REQUEST_COLUMN
        mine = left if own is None else rows.column(own.name).is_valid().to_numpy(zero_copy_only=False)
        left = left & ~mine
        if not mine.any():
            continue
        some = rows if mine.all() else rows.filter(pa.array(mine))
        owner, sides, numbers = shape.cut(some.select(SIDES), some.column(own.name) if own else None)
        owners.append(np.flatnonzero(mine)[owner])
        boxes.append(sides)
        columns.append({shape.PIECE_COLUMN.name: numbers} if shape.PIECE_COLUMN else {})
    owner = np.concatenate([np.empty(0, np.int64), *owners])
    sides = np.concatenate([np.empty((0, 4)), *boxes])
    order = np.argsort(owner, kind="stable") if len(owners) > 1 else None
    merged = {}
    for index, column in enumerate(PIECE_COLUMNS):
        if column.name in SIDES:
            values = pa.array(np.ascontiguousarray(sides[:, index]))
        else:
            parts = [own.get(column.name, pa.nulls(len(mine), column.type)) for mine, own in zip(owners, columns)]
            values = pa.concat_arrays([pa.nulls(0, column.type), *parts])
        merged[column.name] = values if order is None else values.take(pa.array(order))
    return owner if order is None else owner[order], merged


def exact_tests(columns: Mapping[str, pa.Array], count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the exact tests of pieces: codes int64[n] (0: the box decides), offsets int64[n+1], numbers float64[].

    columns  those of the shapes, of `count` pieces
    """
    codes, lengths = np.zeros((2, count), np.int64)
    parts = []
    for shape in SHAPES:
        if shape.PIECE_COLUMN is None:
            continue
        column = columns[shape.PIECE_COLUMN.name]
        has = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        if len(has):
            given = column.drop_null()
            codes[has], lengths[has] = shape.CODE, given.value_lengths().to_numpy()
            parts.append((has, given.flatten().to_numpy()))
    offsets = offsets_of(lengths)
    numbers = np.empty(offsets[-1], np.float64)
    for has, values in parts:
        numbers[concatenate_ranges(offsets[has], lengths[has])] = values
    return codes, offsets, numbers


def contains(region: Region, lon: float, lat: float) -> bool:
    """Whether the region contains the point: the slow and obvious twin of the kernels' test."""
    return _shape_of(region).contains(region, lon, lat)


def outside(region: Region, lon: float, lat: float) -> str:
    """How far a point lies outside the region, in words."""
    return _shape_of(region).outside(region, lon, lat)


def describe(region: Region) -> str:
    """The region in words."""
    return _shape_of(region).describe(region)


def to_json(region: Region) -> dict[str, Any]:
    """The field of a request that gives the region, with its value."""
    shape = _shape_of(region)
    return {shape.FIELD: shape.to_json(region)}


def outline(region: Region) -> list[np.ndarray]:
    """Closed rings to draw, float64[n, 2] each: longitude, latitude."""
    return _shape_of(region).outline(region)


def pieces_of(region: Region) -> list[tuple[float, float, float, float]]:
    """The boxes of the index pieces of a region."""
    row = pa.RecordBatch.from_pylist([to_columns(region)], schema=request_schema())
    columns = cut_regions(row)[1]
    return list(zip(*(columns[side].to_pylist() for side in SIDES)))


def request_schema() -> pa.Schema:
    """The schema of REQUEST_COLUMNS."""
    return pa.schema([pa.field(column.name, column.type) for column in REQUEST_COLUMNS])


def _shape_of(region: Region) -> Shape:
    return next(shape for shape in SHAPES if region.shape == shape.NAME)


def _decode(value: Any, field: str, limits: RegionLimits) -> Any:
    """Parse a text (CSV has regions as JSON texts); return any other value unchanged."""
    if not isinstance(value, str):
        return value
    if len(value) > limits.longest_text:
        raise RegionError(field, f"the text is longer than a region of {limits.max_polygon_vertices} vertices needs")
    try:
        return decode_json(value)
    except NestedTooDeeply as error:
        raise RegionError(field, str(error)) from None
    except ValueError:
        raise RegionError(field, "not a list or an object") from None


def _listed(names: Iterable[str], joint: str) -> str:
    *first, last = names
    return f"{', '.join(first)} {joint} {last}" if first else last
