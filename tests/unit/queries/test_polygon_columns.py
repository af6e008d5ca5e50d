"""Polygons read in columns, as JSON and as Parquet, are those that are read one by one; invalid ones are left."""

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pststream.input.request_fields import ParquetFields, scan_json
from pststream.queries.raw_fields import RawField
from pststream.queries.shapes import polygon
from pststream.queries.shapes.contract import DEFAULT_LIMITS, RegionError, RegionLimits, Regions
from pststream.queries.shapes.registry import SIDES, read_region, to_columns
from tests.unit.kernels.matching.test_polygon import CASES, geometry_of
from tests.unit.queries.test_polygon import HOLE, ISLAND, ODD, SQUARE
from tests.worlds import some_polygon

MANY = RegionLimits(100_000)
MULTI = pa.struct([("type", pa.string()), ("coordinates", pa.list_(pa.list_(pa.list_(pa.list_(pa.float64())))))])
SINGLE = pa.struct([("type", pa.string()), ("coordinates", pa.list_(pa.list_(pa.list_(pa.float64()))))])
PLAIN = [json.dumps(geometry) for geometry in CASES.values() if "e-" not in json.dumps(geometry)]
ODD_TEXTS = [json.dumps(geometry) for geometry, _ in ODD]
OTHER_TEXTS = [
    '{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]], "bbox": [0, 0, 1, 1]}',
    '{"type": "Polygon", "type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]]}',
    '{"type": "Polygon", "coordinates": [[[0, 0], [1e0, 0], [0, 1], [0, 0]]]}',
    '{"type": "MultiPolygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]]}',
    '{"type": "Polygon", "coordinates": [[[[0, 0], [1, 0], [0, 1], [0, 0]]]]}',
    '{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0],]]}',
    '{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]',
    '{"type": "Polygon", "coordinates": [[[0, 0], [-0, 1], [1, 0], [0, 0]]]}',
    '{"coordinates": [[[[[[[[[[1]]]]]]]]]], "type": "Polygon"}',
    '{"type": "Polygon"}',
    "{}",
    "[]",
    "null",
    '"{}"',
]


def from_json(texts: list[str], limits: RegionLimits = DEFAULT_LIMITS) -> Regions:
    lines = [f'{{"geometry": {text}}}'.encode() for text in texts]
    (some,) = scan_json(b"\n".join(lines), ["geometry"], len(lines))
    return polygon.read_column(some.fields["geometry"], limits)


def parquet_field(column: pa.Array) -> RawField:
    return ParquetFields(pa.RecordBatch.from_arrays([column], names=["geometry"]))["geometry"]


def from_texts(texts: list[str | None], limits: RegionLimits = DEFAULT_LIMITS) -> Regions:
    return polygon.read_column(parquet_field(pa.array(["x", *texts], pa.string())[1:]), limits)


def check(regions: Regions, geometries: list[Any], limits: RegionLimits = DEFAULT_LIMITS) -> np.ndarray:
    """Compare parsed rows with `read_region`; return which rows are parsed."""
    assert regions.numbers is not None
    regions.numbers.validate(full=True)
    assert (np.diff(regions.owner) >= 0).all() and regions.parsed[regions.owner].all()
    for row, (parsed, numbers) in enumerate(zip(regions.parsed.tolist(), regions.numbers.to_pylist())):
        if not parsed:
            assert numbers is None
            continue
        expected = to_columns(read_region({"geometry": geometries[row]}, limits))
        assert repr(numbers) == repr([list(ring) for ring in expected["polygon"]])
        boxes = regions.boxes[regions.owner == row].T.tolist()
        assert repr(boxes) == repr([expected[side] for side in SIDES])
    return regions.parsed


@pytest.mark.parametrize("read", [from_json, from_texts])
def test_valid_polygons_are_read_in_columns(read: Any) -> None:
    assert check(read(PLAIN, MANY), PLAIN, MANY).all()
    spaced = [text.replace("[", " [ ").replace(",", " ,\t").replace(":", " : ") for text in PLAIN]
    assert check(read(spaced, MANY), PLAIN, MANY).all()
    turned = [json.dumps(dict(reversed(json.loads(text).items()))) for text in PLAIN]
    assert check(read(turned, MANY), PLAIN, MANY).all()


@pytest.mark.parametrize("read", [from_json, from_texts])
def test_the_polygons_of_random_worlds(read: Any) -> None:
    rnd = random.Random(5)
    texts = [json.dumps(some_polygon(rnd)) for _ in range(500)]
    assert check(read(texts), texts).mean() > 0.95


@pytest.mark.parametrize("read", [from_json, from_texts])
def test_odd_values_are_left_to_the_row_parser(read: Any) -> None:
    """Valid rows between them are read as without them."""
    mixed = [text for odd in ODD_TEXTS + OTHER_TEXTS for text in (odd, PLAIN[len(odd) % 5])]
    parsed = check(read(mixed), mixed)
    assert not parsed[::2].any() and parsed[1::2].all()


def test_altitudes_are_left_out() -> None:
    high = [json.dumps({"type": "Polygon", "coordinates": [[[*position, 12.5] for position in SQUARE]]})]
    assert check(from_json(high), high).all()
    objects = pa.array([json.loads(high[0])], SINGLE)
    assert check(polygon.read_column(parquet_field(objects), DEFAULT_LIMITS), high).all()


@pytest.mark.parametrize("limit", [9, 10, 12, 13, 14])
def test_the_setting_bounds_the_vertices(limit: int) -> None:
    texts = [
        json.dumps({"type": "Polygon", "coordinates": [SQUARE, HOLE]}),
        json.dumps({"type": "MultiPolygon", "coordinates": [[SQUARE, HOLE], [ISLAND]]}),
    ]
    parsed = check(from_json(texts, RegionLimits(limit)), texts, RegionLimits(limit))
    assert parsed.tolist() == [_is_valid(text, RegionLimits(limit)) for text in texts] == [limit >= 10, limit >= 14]


def _is_valid(text: str, limits: RegionLimits) -> bool:
    try:
        read_region({"geometry": text}, limits)
    except RegionError:
        return False
    return True


def test_a_text_that_is_too_long_is_left() -> None:
    text = PLAIN[0].replace("{", "{" + " " * DEFAULT_LIMITS.longest_text)
    assert not from_texts([text]).parsed.any()


def test_objects_of_parquet() -> None:
    several = [json.loads(text) for text in PLAIN]
    several = [value if value["type"] == "MultiPolygon" else None for value in several]
    single = [None if value else json.loads(text) for value, text in zip(several, PLAIN)]
    for values, kind in ((several, MULTI), (single, SINGLE)):
        column = pa.array([values[0], *values], kind)[1:]
        parsed = check(polygon.read_column(parquet_field(column), MANY), values, MANY)
        assert parsed.tolist() == [value is not None for value in values]


def test_objects_of_parquet_with_faults() -> None:
    sound: Any = {"type": "Polygon", "coordinates": [SQUARE]}
    values = [
        sound,
        *({"type": "Polygon", "coordinates": coordinates} for coordinates in (None, [], [None], [[]], [SQUARE, None])),
        *({"type": "Polygon", "coordinates": [[*SQUARE[:2], odd, *SQUARE[2:]]]} for odd in ([], [1], [1, 2, 3, 4])),
        *({"type": "Polygon", "coordinates": [[*SQUARE[:2], odd, *SQUARE[2:]]]} for odd in (None, [4.5, None])),
        {"type": "Polygon", "coordinates": [[*SQUARE[:2], [4.5, 2, float("nan")], *SQUARE[2:]]]},
        {"type": "Polygon", "coordinates": [SQUARE[:-1]]},
        {"type": "MultiPolygon", "coordinates": [SQUARE]},
        {"type": None, "coordinates": [SQUARE]},
        None,
        sound,
    ]
    parsed = check(polygon.read_column(parquet_field(pa.array(values, SINGLE)), DEFAULT_LIMITS), values)
    assert np.flatnonzero(parsed).tolist() == [0, len(values) - 1]


def test_rings_without_a_clear_direction_are_turned_exactly() -> None:
    """A sliver far from the origin, whose area is lost in the rounding of its terms."""
    corners = [(1e-9, 1e-9), (100.0, 89.0), (50.0, 44.5)]
    above = [(1e-9, 1e-9), (100.0, 89.0), (50.0, float(np.nextafter(44.5, 90)))]
    texts = [json.dumps(geometry_of([ring[::step]])) for ring in (corners, above) for step in (1, -1)]
    texts = [text.replace("1e-09", "0.000000001") for text in texts]
    parsed = check(from_json(texts), texts)
    assert parsed.tolist() == [_is_valid(text, DEFAULT_LIMITS) for text in texts]
