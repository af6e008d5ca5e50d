"""Polygons: what is read and what is refused, and what else is said of them."""

import json
import math
import random
from typing import Any

import pytest
import shapely
from hypothesis import assume, given
from hypothesis import strategies as st

from pststream.input.request_fields import scan_json
from pststream.queries.shapes import polygon
from pststream.queries.shapes.contract import DEFAULT_LIMITS, Region, RegionError, RegionLimits, haversine_m
from pststream.queries.shapes.polygon import distance_to_edge
from pststream.queries.shapes.registry import (
    contains,
    describe,
    from_columns,
    outline,
    outside,
    read_region,
    to_columns,
    to_json,
)
from tests.fuzz.cases import examples
from tests.worlds import LATS, LONS, some_polygon

SQUARE = [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]
HOLE = [[1, 1], [1, 3], [3, 3], [3, 1], [1, 1]]
ISLAND = [[10, 0], [12, 0], [11, 2], [10, 0]]


def read(coordinates: Any, kind: str = "Polygon", limits: RegionLimits = DEFAULT_LIMITS, **more: Any) -> Region:
    return read_region({"geometry": {"type": kind, "coordinates": coordinates, **more}}, limits)


def test_an_empty_field_is_no_region() -> None:
    assert read_region({"bbox": [0, 0, 1, 1], "geometry": "", "circle": ""}).boxes == ((0.0, 0.0, 1.0, 1.0),)


def test_a_polygon_with_a_hole() -> None:
    region = read([SQUARE, HOLE])
    assert region.boxes == ((0.0, 0.0, 4.0, 4.0),)
    assert [len(ring) for ring in region.numbers] == [10, 10]
    inside, on_edges = [(0.5, 0.5), (3.5, 2.0)], [(0.0, 0.0), (4.0, 2.0), (1.0, 2.0), (3.0, 3.0), (2.0, 0.0)]
    assert all(contains(region, *point) for point in inside + on_edges)
    assert not any(contains(region, *point) for point in [(2.0, 2.0), (-1e-300, 2.0), (4.0, math.nextafter(4.0, 5))])


def test_rings_are_turned_as_the_tables_want_them() -> None:
    turned = read([SQUARE[::-1], HOLE[::-1]])
    assert turned.numbers == read([SQUARE, HOLE]).numbers
    assert to_json(turned) == {"geometry": {"type": "Polygon", "coordinates": [SQUARE, HOLE]}}


def test_several_polygons() -> None:
    region = read([[SQUARE, HOLE], [ISLAND]], "MultiPolygon")
    assert region.boxes == ((0.0, 0.0, 4.0, 4.0), (10.0, 0.0, 12.0, 2.0))
    assert contains(region, 11.0, 1.0) and contains(region, 0.5, 0.5) and not contains(region, 7.0, 1.0)
    assert to_json(region) == {"geometry": {"type": "MultiPolygon", "coordinates": [[SQUARE, HOLE], [ISLAND]]}}
    assert [len(ring) for ring in outline(region)] == [5, 5, 4]
    assert describe(region) == "2 polygons with 11 corners and 1 hole between west 0, south 0, east 12, north 4"
    assert read_region(to_json(region)) == region


def test_a_region_survives_its_columns() -> None:
    for geometry in ([SQUARE, HOLE], [ISLAND]):
        region = read(geometry)
        assert from_columns(to_columns(region)) == region


def test_altitudes_are_ignored_and_other_members_too() -> None:
    high = [[*position, 12.5] for position in SQUARE]
    assert read([high], bbox=[0, 0, 4, 4], name="x") == read([SQUARE])
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}
    assert read([SQUARE], crs=crs) == read([SQUARE], crs=None) == read([SQUARE])


def test_the_text_of_json_is_read() -> None:
    assert read_region({"geometry": json.dumps(to_json(read([SQUARE]))["geometry"])}) == read([SQUARE])


def test_distance_goes_over_the_pole_and_the_antimeridian() -> None:
    at_pole = [[[107.546, -76.807], [105.446, -69.928], [39.966, -56.86], [37.552, -90], [107.546, -76.807]]]
    region = read(at_pole)
    assert distance_to_edge(region, -151.8856, -83.7683) == pytest.approx(haversine_m(0, -83.7683, 0, -90), rel=1e-3)
    far = [[[[179, 80], [180, 80], [180, 81], [179, 80]]], [[[-1, 50], [1, 50], [1, 51], [-1, 50]]]]
    region = read(far, "MultiPolygon")
    assert distance_to_edge(region, 0.0, 80.0) == pytest.approx(haversine_m(0, 80, 180, 81), rel=1e-3)


@examples(60)
@given(
    st.tuples(st.floats(-179, 179), st.floats(-89, 89)),
    st.tuples(st.floats(-170, 160), st.floats(-85, 80)),
    st.floats(0.001, 8.0),
)
def test_distance_is_the_least_over_the_edges(
    point: tuple[float, float], corner: tuple[float, float], size: float
) -> None:
    (lon, lat), (west, south) = point, corner
    ring = [[west, south], [west + size, south + size / 3], [west + size / 2, south + size / 2], [west, south]]
    region = read([ring])
    sampled = min(
        haversine_m(lon, lat, x1 + (x2 - x1) * step / 2000, y1 + (y2 - y1) * step / 2000)
        for (x1, y1), (x2, y2) in zip(ring, ring[1:])
        for step in range(2001)
    )
    assert distance_to_edge(region, lon, lat) == pytest.approx(sampled, rel=2e-3, abs=size * 100)


def test_distance_to_the_nearest_edge() -> None:
    region = read([SQUARE, HOLE])
    assert distance_to_edge(region, 5.0, 2.0) == pytest.approx(haversine_m(5.0, 2.0, 4.0, 2.0), rel=1e-6)
    assert distance_to_edge(region, 2.0, 2.0) == pytest.approx(haversine_m(2.0, 2.0, 2.0, 1.0), rel=1e-2)
    assert outside(region, 5.0, 2.0) == "111.1 km from its nearest edge"
    fiji = read([[[[179, -17], [180, -17], [180, -16], [179, -16], [179, -17]]]], "MultiPolygon")
    assert distance_to_edge(fiji, -179.5, -16.5) == pytest.approx(haversine_m(-179.5, -16.5, 180, -16.5), rel=1e-3)


BOW_TIE = [[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]
ODD: list[tuple[Any, str]] = [
    ([1, 2], "not a GeoJSON object"),
    ({"type": "Point", "coordinates": [1, 2]}, "type is 'Point': Polygon or MultiPolygon is expected"),
    ({"type": "Feature", "geometry": {}}, "type is 'Feature': Polygon or .* expected; give its \"geometry\""),
    ({"coordinates": [SQUARE]}, "type is missing: Polygon or MultiPolygon"),
    ({"type": "Polygon"}, "coordinates is not a list of rings"),
    ({"type": "Polygon", "coordinates": []}, "coordinates is empty"),
    ({"type": "Polygon", "coordinates": [[]]}, "ring 1 is empty"),
    ({"type": "Polygon", "coordinates": SQUARE}, "ring 1, position 1 is not .* rings nested"),
    ({"type": "Polygon", "coordinates": [SQUARE[:-1]]}, "ring 1 is not closed: its last position is not its first"),
    ({"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, 0]]]}, "ring 1 has 3 positions; a ring has four or more"),
    ({"type": "Polygon", "coordinates": [SQUARE, BOW_TIE]}, "not a valid polygon: .*intersection"),
    ({"type": "Polygon", "coordinates": [BOW_TIE]}, r"not a valid polygon: Self-intersection\[1 1\]"),
    ({"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [2, 2], [0, 0]]]}, "not a valid polygon"),
    ({"type": "Polygon", "coordinates": [SQUARE, ISLAND]}, r"not a valid polygon: Hole lies outside shell"),
    ({"type": "MultiPolygon", "coordinates": [[SQUARE], [SQUARE]]}, "not a valid polygon: .*[Dd]uplicate|Self"),
    ({"type": "MultiPolygon", "coordinates": [SQUARE]}, "polygon 1, ring 1, position 1 is not a list"),
    ({"type": "MultiPolygon", "coordinates": [[SQUARE], []]}, "polygon 2, coordinates is empty"),
    (
        {"type": "Polygon", "coordinates": [[[179, 0], [181, 0], [181, 1], [179, 0]]]},
        "longitude 181 is outside .*antimer",
    ),
    (
        {"type": "Polygon", "coordinates": [SQUARE, [[178, -1], [-178, -1], [-178, 1], [178, 1], [178, -1]]]},
        "ring 2: the edge from position 1 to 2 spans 356 degrees of .* cut .*antimeridian.*or add a position",
    ),
    ({"type": "Polygon", "coordinates": [[[-180, 0], [180, 1], [0, 9], [-180, 0]]]}, "spans 360 degrees"),
    ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 91], [0, 0]]]}, "latitude 91 is outside"),
    ({"type": "Polygon", "coordinates": [[[0, 0], [1, math.nan], [1, 1], [0, 0]]]}, "latitude is not a finite number"),
    ({"type": "Polygon", "coordinates": [[[0, 0], [1, "0"], [1, 1], [0, 0]]]}, "position 2: latitude is not a number"),
    ({"type": "Polygon", "coordinates": [[[0, 0, "up"], [1, 0], [1, 1], [0, 0]]]}, "altitude is not a number"),
    ({"type": "Polygon", "coordinates": [[[0, 0, 1, 2], [1, 0], [1, 1], [0, 0]]]}, "is not a list of longitude"),
    ({"type": "Polygon", "coordinates": [SQUARE], "crs": {"properties": {"name": "EPSG:3006"}}}, "crs is not that of"),
    (
        {"type": "Polygon", "coordinates": [[[0, 0]] * 1_001]},
        "more than 1,000 vertices; the setting max_polygon_vertices",
    ),
    ({"type": "Polygon", "coordinates": [[[0, 0]]] * 2_000}, "more than 1,000 vertices"),
]


@pytest.mark.parametrize(("geometry", "reason"), ODD)
def test_odd_geometries_are_refused_with_field_and_reason(geometry: Any, reason: str) -> None:
    with pytest.raises(RegionError, match=reason) as found:
        read_region({"geometry": geometry})
    assert found.value.field == "geometry" and not found.value.missing
    assert str(found.value).startswith("geometry: ")


@examples(300)
@given(
    st.lists(st.tuples(st.sampled_from(LONS), st.sampled_from(LATS)), min_size=3, max_size=6),
    st.lists(st.integers(0, 5)),
)
def test_an_edge_of_more_than_180_degrees_is_refused_until_it_has_a_position(
    corners: list[tuple[float, float]], cuts: list[int]
) -> None:
    """Of rings that are valid otherwise, and in columns as one by one; the world and Antarctica are valid."""
    for place in cuts:
        (x1, y1), (x2, y2) = corners[place % len(corners) - 1], corners[place % len(corners)]
        corners.insert(place % len(corners), ((x1 + x2) / 2, (y1 + y2) / 2))
    ring = [list(corner) for corner in (*corners, corners[0])]
    text, shape = json.dumps({"type": "Polygon", "coordinates": [ring]}), shapely.Polygon(ring)
    assume(shape.is_valid)
    is_long = any(
        abs(x1 - x2) > 180 and not (y1 == y2 and (abs(x1 - x2) == 360 or abs(y1) == 90))
        for (x1, y1), (x2, y2) in zip(ring, ring[1:])
    )
    (fields,) = scan_json(f'{{"geometry": {text}}}'.encode(), ["geometry"], 1)
    assert polygon.read_column(fields.fields["geometry"], DEFAULT_LIMITS).parsed.tolist() == [not is_long]
    if is_long:
        with pytest.raises(RegionError, match="degrees of longitude"):
            read([ring])
    else:
        read([ring])


@pytest.mark.parametrize(
    "ring",
    [
        [[-180, -90], [180, -90], [180, 90], [-180, 90], [-180, -90]],
        [[-180, -90], [180, -90], [180, -70], [0, -65], [-180, -70], [-180, -90]],
        [[-170, -90], [170, -90], [170, -70], [0, -65], [-170, -70], [-170, -90]],
        [[-180, 60], [180, 60], [180, 70], [-180, 70], [-180, 60]],
    ],
)
def test_the_world_antarctica_and_a_band_are_valid(ring: list[list[float]]) -> None:
    region = read([ring])
    assert to_json(region)["geometry"]["coordinates"] == [ring]


def test_the_setting_bounds_the_vertices_of_all_rings() -> None:
    assert read([SQUARE, HOLE], limits=RegionLimits(10)).shape == "polygon"
    with pytest.raises(RegionError, match="more than 9 vertices"):
        read([SQUARE, HOLE], limits=RegionLimits(9))
    with pytest.raises(RegionError, match="more than 12 vertices"):
        read([[SQUARE, HOLE], [ISLAND]], "MultiPolygon", RegionLimits(12))


def test_deep_nesting_costs_nothing() -> None:
    deep: Any = 1.0
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(RegionError, match="position 1"):
        read(deep)


def test_polygons_of_random_worlds_are_valid() -> None:
    """The twin does not check that polygons share no edge; seed 354 drew two that did."""
    for seed in range(2000):
        read_region({"geometry": some_polygon(random.Random(seed))})
