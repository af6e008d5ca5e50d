"""Regions against plain formulas, at edges, poles and the antimeridian, and the index pieces of range queries."""

import math
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pststream.kernels.matching.contains_point import contains_point
from pststream.queries.kinds.contract import RequestLimits
from pststream.queries.kinds.range import STORED_COLUMNS as REQUEST_COLUMNS
from pststream.queries.kinds.range import make_pieces, parse_request
from pststream.queries.kinds.registry import DEFAULT_KIND, split_by_kind
from pststream.queries.shapes.contract import EARTH_RADIUS_M, Region, RegionError, haversine_m, matched_lon
from pststream.queries.shapes.registry import (
    PIECE_COLUMNS,
    SIDES,
    contains,
    cut_regions,
    exact_tests,
    most_pieces,
    read_region,
    request_schema,
    to_columns,
)
from tests.fuzz.cases import examples
from tests.oracles import text as slow
from tests.oracles.twin import PublishedObject, in_region, read_insertion
from tests.oracles.twin_regions import in_box
from tests.worlds import some_region

HALF_WAY_ROUND = math.pi * EARTH_RADIUS_M
LON = st.one_of(st.floats(-180, 180), st.sampled_from([-180.0, 180.0, 179.9999, -179.9999, 0.0]))
LAT = st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, 90.0, 89.9999, -89.9999, 89.9999999, 0.0]))
RADIUS = st.one_of(st.floats(0, 1e5), st.floats(0, 2.1e7), st.sampled_from([0.0, HALF_WAY_ROUND, 1e7]))


def read_bbox(bbox: Any) -> Region:
    return read_region({"bbox": bbox})


def read_circle(circle: Any) -> Region:
    return read_region({"circle": circle})


def in_boxes(region: Region, lon: float, lat: float) -> bool:
    return any(in_box(lon, lat, *box) for box in region.boxes)


@given(LON, LAT, LON, LAT, LON, LAT)
@examples(300)
def test_a_box_holds_what_its_numbers_say(w: float, s: float, e: float, n: float, lon: float, lat: float) -> None:
    assume(s <= n)
    assert contains(read_bbox([w, s, e, n]), lon, lat) == in_box(lon, lat, w, s, e, n)


@given(LON, LAT, LON, LAT)
@examples(300)
def test_distance_is_that_of_the_twin(lon1: float, lat1: float, lon2: float, lat2: float) -> None:
    # The haversine formula loses digits near the antipode, the square root of the last bit at most.
    expected = slow.great_circle_m(lon1, lat1, lon2, lat2)
    assert haversine_m(lon1, lat1, lon2, lat2) == pytest.approx(expected, rel=1e-9, abs=0.3)


@given(LON, LAT, RADIUS, LON, LAT)
@examples(1000)
@example(180.0, 0.0, 0.0, -180.0, 0.0)
@example(0.0, 0.0, HALF_WAY_ROUND, 180.0, 0.0)
def test_boxes_hold_every_point_of_the_circle(lon: float, lat: float, radius: float, x: float, y: float) -> None:
    region = read_circle({"lon": lon, "lat": lat, "radius_m": radius})
    assert 1 <= len(region.boxes) <= 2
    assert all(-180 <= w <= e <= 180 and -90 <= s <= n <= 90 for w, s, e, n in region.boxes)
    if contains(region, x, y):
        assert in_boxes(region, x, y)


@given(LON, LAT, RADIUS, st.floats(0, 2 * math.pi))
@examples(1000)
def test_boxes_hold_the_rim_of_the_circle(lon: float, lat: float, radius: float, bearing: float) -> None:
    region = read_circle({"lon": lon, "lat": lat, "radius_m": radius})
    x, y = destination(lon, lat, radius, bearing)
    if contains(region, x, y):
        assert in_boxes(region, x, y)


def destination(lon: float, lat: float, distance: float, bearing: float) -> tuple[float, float]:
    """The point at a distance and a bearing, within the bounds of longitude and latitude."""
    angle, up = distance / EARTH_RADIUS_M, math.radians(lat)
    sine = math.sin(up) * math.cos(angle) + math.cos(up) * math.sin(angle) * math.cos(bearing)
    north = math.asin(max(-1.0, min(1.0, sine)))
    across = math.atan2(math.sin(bearing) * math.sin(angle) * math.cos(up), math.cos(angle) - math.sin(up) * sine)
    return max(-180.0, min(180.0, (lon + math.degrees(across) + 540) % 360 - 180)), math.degrees(north)


def test_the_box_of_a_circle_is_tight() -> None:
    (box,) = read_circle({"lon": 18.07, "lat": 59.33, "radius_m": 5000}).boxes
    assert box == pytest.approx((17.98184, 59.28503, 18.15816, 59.37497), abs=1e-4)


def test_edges_and_corners_belong_to_a_box() -> None:
    region = read_bbox([1, 2, 3, 4])
    assert all(contains(region, lon, lat) for lon in (1, 2, 3) for lat in (2, 3, 4))
    assert not contains(region, math.nextafter(3, 4), 3)
    assert not contains(region, 2, math.nextafter(2, 1))


def test_the_edge_belongs_to_a_circle() -> None:
    distance = haversine_m(18.07, 59.33, 18.2, 59.4)
    assert contains(read_circle({"lon": 18.07, "lat": 59.33, "radius_m": distance}), 18.2, 59.4)
    assert not contains(read_circle({"lon": 18.07, "lat": 59.33, "radius_m": math.nextafter(distance, 0)}), 18.2, 59.4)


def test_boxes_of_named_cases() -> None:
    assert read_bbox([170, -1, -170, 1]).boxes == ((170.0, -1.0, 180.0, 1.0), (-180.0, -1.0, -170.0, 1.0))
    assert read_bbox([180, 0, -180, 0]).boxes == ((180.0, 0.0, 180.0, 0.0), (-180.0, 0.0, -180.0, 0.0))
    assert read_bbox([5, 5, 5, 5]).boxes == ((5.0, 5.0, 5.0, 5.0),)
    assert contains(read_bbox([170, -90, 180, 90]), -180, 0)


def pieces_with(region: Region, lon: float, lat: float) -> int:
    """Return how many index pieces of a region contain a point, as it is matched."""
    row = pa.RecordBatch.from_pylist([to_columns(region)], schema=request_schema())
    owner, columns = cut_regions(row)
    codes, offsets, numbers = exact_tests(columns, len(owner))
    lon, count = matched_lon(lon, lat).item(), 0
    for piece, (w, s, e, n) in enumerate(zip(*(columns[side].to_pylist() for side in SIDES))):
        within = w <= lon <= e and s <= lat <= n
        exact = codes[piece], numbers, offsets[piece], offsets[piece + 1]
        count += within and (codes[piece] == 0 or bool(contains_point(*exact, lon, lat)))
    assert len(owner) <= most_pieces(row).item()
    return count


EDGES = st.sampled_from([-180.0, -179.0, -1.0, 0.0, 90.0, 179.0, 180.0])
ROWS = st.sampled_from([-90.0, -89.0, 0.0, 1.0, 89.0, 90.0])


@given(st.integers(0, 2**32), EDGES, ROWS)
@examples(500)
def test_the_antimeridian_is_one_line_and_a_pole_one_place(seed: int, lon: float, lat: float) -> None:
    """A point lies in no piece or in one, whatever its longitude is, as the twin says."""
    asked = some_region(random.Random(seed))
    if asked.get("circle"):
        asked["circle"]["radius_m"] += 0.3  # off the points
    region = read_region(asked)
    life = read_insertion({"subscription_id": "s", "keywords": "*", "created_at": 0, **asked}, 0)
    inside = in_region(PublishedObject("o", 0, lon, lat, frozenset()), life)
    others = [-lon] if abs(lon) == 180 else []
    for x in (lon, *([-180.0, -179.0, 0.0, 180.0] if abs(lat) == 90 else others)):
        assert contains(region, x, lat) == inside
        assert pieces_with(region, x, lat) == inside


def test_circles_of_named_cases() -> None:
    crossing = read_circle({"lon": 179.9, "lat": 0, "radius_m": 50_000})
    assert len(crossing.boxes) == 2
    assert contains(crossing, -179.9, 0) and contains(crossing, 179.6, 0) and not contains(crossing, -179.6, 0)
    polar = read_circle({"lon": 0, "lat": 89.9, "radius_m": 50_000})
    assert polar.boxes[0][0] == -180 and polar.boxes[0][2] == 180
    assert contains(polar, 180, 89.9) and not contains(polar, 180, 89.5)
    assert contains(read_circle({"lon": 1, "lat": 1, "radius_m": 0}), 1, 1)
    world = read_circle({"lon": 0, "lat": 0, "radius_m": HALF_WAY_ROUND})
    assert world.boxes == ((-180.0, -90.0, 180.0, 90.0),) and contains(world, 180, 0)
    assert contains(read_circle({"lon": 0, "lat": 0, "radius_m": 1e300}), 180, 0)


@pytest.mark.parametrize(
    ("bbox", "reason"),
    [
        ([0, 0, 1], "four numbers"),
        ([0, 0, 1, 1, 1], "four numbers"),
        ("0,0,1,1", "not a list"),
        ({"west": 0}, "four numbers"),
        (7, "four numbers"),
        ([0, 0, "1", 1], "east is not a number"),
        ([0, 0, True, 1], "east is not a number"),
        ([0, None, 1, 1], "south is not a number"),
        ([float("nan"), 0, 1, 1], "west is not a finite"),
        ([0, 0, 10**400, 1], "east is not a finite"),
        ([0, 0, 180.1, 1], "east 180.1 is outside"),
        ([0, -91, 1, 1], "south -91 is outside"),
        ([0, 2, 1, 1], "south 2 is greater than north 1"),
    ],
)
def test_boxes_that_cannot_be_read(bbox: Any, reason: str) -> None:
    with pytest.raises(RegionError, match=reason) as found:
        read_bbox(bbox)
    assert found.value.field == "bbox"


@pytest.mark.parametrize(
    ("circle", "reason"),
    [
        ([0, 0, 1], "not an object"),
        ({"lon": 0, "lat": 0}, "radius_m is missing"),
        ({"lon": 0, "lat": 0, "radius_m": 5, "unit": "km"}, "'unit' is none of its members"),
        ({"lon": 0, "lat": None, "radius_m": 1}, "lat is missing"),
        ({"lon": 0, "lat": 91, "radius_m": 1}, "lat 91 is outside"),
        ({"lon": 0, "lat": 0, "radius_m": -1}, "negative"),
        ({"lon": 0, "lat": 0, "radius_m": "1"}, "not a number"),
        ({"lon": 0, "lat": 0, "radius_m": True}, "not a number"),
        ({"lon": 0, "lat": 0, "radius_m": math.inf}, "not a finite"),
    ],
)
def test_circles_that_cannot_be_read(circle: Any, reason: str) -> None:
    with pytest.raises(RegionError, match=reason) as found:
        read_circle(circle)
    assert found.value.field == "circle"


def test_a_request_has_one_region() -> None:
    with pytest.raises(RegionError, match="bbox and circle are given: an insertion has exactly one of") as found:
        read_region({"bbox": [0, 0, 1, 1], "circle": {"lon": 0, "lat": 0, "radius_m": 1}})
    assert not found.value.missing
    with pytest.raises(RegionError, match="missing: an insertion has exactly one of bbox, circle or geometry") as found:
        read_region({"bbox": None})
    assert found.value.missing


def test_a_region_may_be_the_text_of_json() -> None:
    assert read_region({"bbox": "[1, 2, 3, 4]"}) == read_bbox([1, 2, 3, 4])
    for text in ("[1, 2, 3", "[" * 5_000, "1e999999"):
        with pytest.raises(RegionError):
            read_region({"bbox": text})
    with pytest.raises(RegionError, match="longer than"):
        read_region({"geometry": " " * 1_000_000})


SCHEMA = pa.schema([(column.name, column.type) for column in REQUEST_COLUMNS])


def insertions(*regions: dict[str, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [parse_request({"keywords": "tea"} | region, RequestLimits()) for region in regions], SCHEMA
    )


def test_two_boxes_are_two_pieces() -> None:
    circle = {"lon": 0.0, "lat": 0.0, "radius_m": 1.0}
    rows = insertions({"bbox": [5, 5, 6, 6]}, {"bbox": [0, 1, 2, 3]}, {"bbox": [170, 1, -170, 3]}, {"circle": circle})
    row, columns = make_pieces(rows.slice(1))
    assert set(columns.schema.names) == {"clauses", "verified", "phrases", *(column.name for column in PIECE_COLUMNS)}
    assert row.tolist() == [0, 1, 1, 2]
    boxes = list(zip(*(columns.column(side).to_pylist() for side in ("west", "south", "east", "north"))))
    assert boxes[:3] == [(0.0, 1.0, 2.0, 3.0), (170.0, 1.0, 180.0, 3.0), (-180.0, 1.0, -170.0, 3.0)]
    assert columns.column("circle").to_pylist() == [None, None, None, [0.0, 0.0, 1.0]]
    assert len(set(map(str, columns.column("clauses").to_pylist()))) == 1


def test_pieces_of_all_shapes_stand_in_the_order_of_their_rows() -> None:
    circle = {"lon": 0.0, "lat": 0.0, "radius_m": 1.0}
    strip = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [21, 20], [20, 20], [0, 0]]]}
    rows = insertions({"geometry": strip}, {"bbox": [0, 1, 2, 3]}, {"circle": circle}, {"geometry": strip})
    row, columns = make_pieces(rows)
    counts = [row.tolist().count(place) for place in range(4)]
    assert row.tolist() == sorted(row.tolist()) and counts[1:3] == [1, 1] and counts[0] == counts[3] > 4
    edges = columns.column("polygon_edges").to_pylist()
    assert [values is None for values in edges] == [place in (1, 2) for place in row.tolist()]
    assert edges[: counts[0]] == edges[-counts[3] :]
    assert columns.column("circle").to_pylist()[counts[0] + 1] == [0.0, 0.0, 1.0]
    row, columns = make_pieces(rows.slice(0, 0))
    assert (len(row), columns.num_rows) == (0, 0)


def test_rows_of_one_kind_and_no_rows_are_one_group() -> None:
    kinds = pa.array([DEFAULT_KIND] * 3)
    rows = pa.RecordBatch.from_pydict({"kind": kinds, "row": [1, 2, 3]})
    assert [(kind.name, part.column("row").to_pylist()) for kind, part in split_by_kind(rows)] == [
        (DEFAULT_KIND, [1, 2, 3])
    ]
    (empty,) = split_by_kind(rows.slice(3))
    assert (empty[0].name, empty[1].num_rows) == (DEFAULT_KIND, 0)
