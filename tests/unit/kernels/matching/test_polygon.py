"""The polygon kernel against exact fractions and against Shapely, on random and on adversarial polygons."""

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels.matching.contains_point import in_polygon, side_of_line
from pststream.kernels.matching.cut_polygon import MOST_PIECES, cut_polygon, cut_polygons
from pststream.queries.shapes import registry
from pststream.queries.shapes.contract import RegionError, RegionLimits, matched_lon
from tests.fuzz.cases import examples
from tests.oracles.polygon import covers_geometry
from tests.oracles.twin_regions import in_geometry

Point = tuple[float, float]
Rings = list[list[Point]]
LIMITS = RegionLimits(100_000)


class Cut:
    """A polygon as the index has it: pieces, each with its edges."""

    def __init__(self, geometry: dict[str, Any]) -> None:
        self.region = registry.read_region({"geometry": geometry}, LIMITS)
        row = pa.RecordBatch.from_pylist([registry.to_columns(self.region)], schema=registry.request_schema())
        _, columns = registry.cut_regions(row)
        self.boxes = np.column_stack([columns[side].to_numpy() for side in registry.SIDES])
        self.edges = [None if edges is None else np.array(edges) for edges in columns["polygon_edges"].to_pylist()]

    def covers(self, lon: float, lat: float) -> bool:
        """As the matching decides; a point must not be in two pieces."""
        lon = matched_lon(lon, lat).item()
        west, south, east, north = self.boxes.T
        (places,) = np.nonzero((west <= lon) & (lon <= east) & (south <= lat) & (lat <= north))
        assert len(places) <= 1
        if not len(places):
            return False
        edges = self.edges[places[0]]
        return True if edges is None else bool(in_polygon(edges, 0, len(edges), lon, lat))


def geometry_of(*polygons: Rings) -> dict[str, Any]:
    closed = [[[list(p) for p in [*ring, ring[0]]] for ring in rings] for rings in polygons]
    if len(closed) == 1:
        return {"type": "Polygon", "coordinates": closed[0]}
    return {"type": "MultiPolygon", "coordinates": closed}


def star(rnd: random.Random, corners: int, centre: Point, radius: float, spikes: float = 0.2) -> list[Point]:
    """A simple polygon around its centre."""
    turns = sorted({rnd.uniform(0, 2 * math.pi) for _ in range(corners)})
    lengths = [radius * rnd.uniform(spikes, 1.0) for _ in turns]
    return [(centre[0] + r * math.cos(t), centre[1] + r * math.sin(t)) for t, r in zip(turns, lengths)]


def comb(teeth: int, high: float) -> list[Point]:
    """Many thin teeth; all tips at one latitude, so that a ray runs through all of them."""
    up = [(x / teeth, high if x % 2 else 0.5) for x in range(teeth + 1)]
    return [(0.0, 0.0), *up, (1.0, 0.0)]


def named() -> Iterator[tuple[str, dict[str, Any]]]:
    """The shapes that break polygon tests."""
    rnd = random.Random(3)
    square = [(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0)]
    yield "sliver", geometry_of([[(0.1, 0.1), (10.3, 10.7), (10.3, math.nextafter(10.7, 99))]])
    yield "diagonal strip", geometry_of([[(0.1, 0.1), (0.2, 0.1), (30.2, 28.7), (30.1, 28.7)]])
    yield (
        "holes that touch at a point",
        geometry_of(
            [square, [(1, 1), (2, 2), (1, 3)], [(2, 2), (3, 1), (3, 3)]]  # fmt: skip
        ),
    )
    yield "hole that touches the exterior", geometry_of([square, [(0.0, 2.0), (1.0, 1.0), (1.0, 3.0)]])
    yield (
        "collinear vertices",
        geometry_of([[(0, 0), (1, 0), (2, 0), (2.5, 0), (4, 0), (4, 2), (4, 4), (0, 4), (0, 1)]]),
    )
    yield "steps", geometry_of([[(0, 0), (3, 0), (3, 1), (2, 1), (2, 2), (1, 2), (1, 3), (0, 3)]])
    yield "repeated vertices", geometry_of([[(0, 0), (0, 0), (2, 0), (2, 2), (2, 2), (0, 2)]])
    yield "comb", geometry_of([comb(60, 3.0)])
    yield "tiny", geometry_of([[(1e-9, 1e-9), (3e-9, 1.5e-9), (2e-9, 4e-9)]])
    yield (
        "tiny far away",
        geometry_of([[(123.4, 56.7), (math.nextafter(123.4, 180), 56.7), (123.4, math.nextafter(56.7, 90))]]),
    )
    yield "one third", geometry_of([[(0.1, 1 / 3), (0.7, 0.2), (2 / 3, 0.9), (0.3, 0.8)]])
    yield "touching polygons", geometry_of([square], [[(4.0, 4.0), (6.0, 4.0), (6.0, 6.0)]])
    yield (
        "both sides of the antimeridian",
        geometry_of(
            [[(170.0, -20.0), (180.0, -20.0), (180.0, -10.0)]], [[(-180.0, -20.0), (-170.0, -20.0), (-180.0, -10.0)]]
        ),
    )
    yield (
        "Antarctica",
        geometry_of(
            [[(-180.0, -90.0), (180.0, -90.0), (180.0, -80.0), (20.0, -70.0), (-150.0, -75.0), (-180.0, -80.0)]]
        ),
    )
    yield (
        "hole that touches the antimeridian, and a polygon that touches it elsewhere",
        geometry_of(
            [
                [(-180.0, -9.0), (-170.0, -9.0), (-170.0, 9.0), (-180.0, 9.0)],
                [(-180.0, 2.0), (-175.0, 1.0), (-175.0, 3.0)],
            ],
            [[(170.0, 0.0), (180.0, 12.0), (170.0, 12.0)]],
        ),
    )
    yield "whole world", geometry_of([[(-180.0, -90.0), (180.0, -90.0), (180.0, 90.0), (-180.0, 90.0)]])
    yield (
        "island in a lake",
        geometry_of([square, [(1, 1), (3, 1), (3, 3), (1, 3)]], [[(1.5, 1.5), (2.5, 1.5), (2, 2.5)]]),
    )
    yield "thousands of vertices", geometry_of([star(rnd, 4_000, (10.0, 50.0), 5.0, 0.9)])
    for corners in (3, 4, 7, 30):
        yield f"star of {corners}", geometry_of([star(rnd, corners, (-70.0, -33.0), 2.0)])


CASES = dict(named())


def points_of(geometry: dict[str, Any], boxes: np.ndarray, rnd: random.Random, count: int) -> list[Point]:
    """Points where tests go wrong: vertices, points on and beside edges, sides of pieces, latitudes of vertices."""
    polygons = [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]
    edges = [(*a, *b) for rings in polygons for ring in rings for a, b in zip(ring, ring[1:])]
    west, south, east, north = (f(boxes[:, k]) for k, f in enumerate((np.min, np.min, np.max, np.max)))
    found: list[Point] = []
    for _ in range(count):
        x1, y1, x2, y2 = rnd.choice(edges)
        along = rnd.choice((0.0, 0.5, 0.25, rnd.random()))
        on = (x1 + along * (x2 - x1), y1 + along * (y2 - y1))
        box = boxes[rnd.randrange(len(boxes))]
        found += [
            (x1, y1),
            on,
            (math.nextafter(on[0], rnd.choice((-999, 999))), on[1]),
            (on[0], math.nextafter(on[1], rnd.choice((-999, 999)))),
            (rnd.uniform(west, east), y1),
            (rnd.uniform(west, east), rnd.uniform(south, north)),
            (float(rnd.choice((box[0], box[2], math.nextafter(box[0], -999)))), rnd.uniform(box[1], box[3])),
            (rnd.uniform(box[0], box[2]), float(rnd.choice((box[1], box[3], math.nextafter(box[1], -999))))),
        ]
    return [(lon, lat) for lon, lat in found if abs(lon) <= 180 and abs(lat) <= 90]


@pytest.mark.parametrize("name", CASES)
def test_kernel_twin_and_shapely_agree(name: str) -> None:
    geometry, rnd = CASES[name], random.Random(name)
    cut, shape = Cut(geometry), shapely.geometry.shape(geometry)
    points = points_of(geometry, cut.boxes, rnd, 20 if name.startswith("thousands") else 120)
    # To Shapely, the longitudes of a point of the antimeridian are two points.
    by_shapely = shapely.covers(shape, shapely.points(points))
    for x in (-180, 180):
        by_shapely |= [abs(lon) == 180 and shape.covers(shapely.Point(x, lat)) for lon, lat in points]
    found = np.array([cut.covers(*point) for point in points])
    assert found.any() and (name == "whole world" or not found.all())
    assert [p for p, a, b in zip(points, found, by_shapely) if a != b] == []
    some = points if len(cut.region.numbers[0]) < 500 else points[:24]
    assert [p for p, a in zip(some, found) if a != in_geometry(*p, geometry)] == []
    assert [p for p, a in zip(some, found) if a != registry.contains(cut.region, *p)] == []


@examples(150)
@given(st.integers(0, 2**32), st.integers(3, 40), st.sampled_from([1e-7, 1e-3, 0.2, 5.0, 40.0]), st.booleans())
def test_random_polygons(seed: int, corners: int, radius: float, holed: bool) -> None:
    rnd = random.Random(seed)
    centre = rnd.uniform(-100, 100), rnd.uniform(-45, 45)
    rings = [star(rnd, corners, centre, radius)]
    if holed:
        rings.append(star(rnd, 5, centre, radius * 0.05))
    geometry = geometry_of(rings)
    try:
        cut = Cut(geometry)
    except RegionError:
        assert not shapely.geometry.shape(geometry).is_valid
        return
    points = points_of(geometry, cut.boxes, rnd, 12)
    by_shapely = shapely.covers(shapely.geometry.shape(geometry), shapely.points(points))
    for point, covered in zip(points, by_shapely):
        assert cut.covers(*point) == covered == covers_geometry(geometry, *point), point


@examples(300)
@given(st.integers(0, 2**32))
def test_polygons_of_a_lattice(seed: int) -> None:
    """Corners and points from few coordinates, so that rays run along edges and through corners."""
    rnd = random.Random(seed)
    steps = [0.0, 0.1, 0.2, 0.30000000000000004, 0.4]
    ring = [(rnd.choice(steps), rnd.choice(steps)) for _ in range(rnd.choice((3, 4, 5, 6)))]
    geometry = geometry_of([ring])
    try:
        cut = Cut(geometry)
    except RegionError:
        assert not shapely.geometry.shape(geometry).is_valid
        return
    for lon in steps:
        for lat in steps:
            for x in (lon, math.nextafter(lon, 9), (lon + 0.1) / 2):
                assert cut.covers(x, lat) == covers_geometry(geometry, x, lat), (x, lat)


@examples(500)
@given(
    st.lists(st.floats(-180, 180, allow_subnormal=False), min_size=4, max_size=4), st.integers(-3, 3), st.floats(0, 1)
)
def test_side_of_a_line_is_exact(ends: list[float], ulps: int, along: float) -> None:
    x1, y1, x2, y2 = ends
    x, y = x1 + along * (x2 - x1), y1 + along * (y2 - y1)
    for _ in range(abs(ulps)):
        x = math.nextafter(x, math.copysign(999, ulps))
    assert side_of_line(x1, y1, x2, y2, x, y) == exact_side(x1, y1, x2, y2, x, y)


@pytest.mark.parametrize("scale", [1.0, 1e-100, 1e-160, 1e-300, 5e-324])
def test_side_of_a_line_of_tiny_numbers(scale: float) -> None:
    rnd = random.Random(1)
    for _ in range(500):
        numbers = [rnd.randint(-4, 4) * scale for _ in range(6)]
        assert side_of_line(*numbers) == exact_side(*numbers)


def exact_side(*numbers: float) -> int:
    x1, y1, x2, y2, x, y = (Fraction(number) for number in numbers)
    turn = (x1 - x) * (y2 - y) - (y1 - y) * (x2 - x)
    return (turn > 0) - (turn < 0)


@pytest.mark.parametrize("name", CASES)
def test_pieces_are_few_disjoint_and_within_the_bounds(name: str) -> None:
    cut = Cut(CASES[name])
    assert 1 <= len(cut.boxes) <= MOST_PIECES
    bounds = np.array(cut.region.boxes)
    assert (cut.boxes[:, :2] >= bounds[:, :2].min(axis=0)).all() and (
        cut.boxes[:, 2:] <= bounds[:, 2:].max(axis=0)
    ).all()
    assert (cut.boxes[:, :2] <= cut.boxes[:, 2:]).all()
    for i, (west, south, east, north) in enumerate(cut.boxes):
        w, s, e, n = cut.boxes[i + 1 :].T
        assert not ((w <= east) & (e >= west) & (s <= north) & (n >= south)).any()


def test_a_long_thin_polygon_does_not_flood_the_index() -> None:
    """The figures of the docstring of cut_polygon: the area of boxes, and edges of a test, of a diagonal strip."""
    cut = Cut(geometry_of([[(0.0, 0.0), (0.4, 0.0), (20.4, 20.0), (20.0, 20.0)]]))
    area = float(((cut.boxes[:, 2] - cut.boxes[:, 0]) * (cut.boxes[:, 3] - cut.boxes[:, 1])).sum())
    assert area < 0.2 * 20.4 * 20.0
    assert len(cut.boxes) >= 6
    assert max(len(edges) // 4 for edges in cut.edges if edges is not None) <= 4


def test_few_edges_decide_in_a_piece() -> None:
    cut = Cut(CASES["thousands of vertices"])
    lengths = [len(edges) // 4 for edges in cut.edges if edges is not None]
    assert len(cut.edges) > 8 and np.mean(lengths) < 1_000


def test_a_column_is_cut_as_each_of_its_polygons() -> None:
    regions = [registry.read_region({"geometry": geometry}, LIMITS) for geometry in CASES.values()]
    rows = pa.RecordBatch.from_pylist([registry.to_columns(region) for region in regions], registry.request_schema())
    owner, columns = registry.cut_regions(rows)
    boxes = np.column_stack([columns[side].to_numpy() for side in registry.SIDES])
    for place, region in enumerate(regions):
        points = [np.array(ring).reshape(-1, 2) for ring in region.numbers]
        edges = np.concatenate([np.column_stack([ring[:-1], ring[1:]]) for ring in points])
        expected, offsets, numbers = cut_polygon(edges[(edges[:, :2] != edges[:, 2:]).any(axis=1)].ravel())
        mine = (owner == place) & (boxes[:, 0] < 180)
        if mine.sum() < (owner == place).sum():  # points of the antimeridian are in a piece of their own
            expected = np.minimum(expected, math.nextafter(180, 0))
        assert boxes[mine].tolist() == expected.tolist()
        pieces = [numbers[start:stop].tolist() or None for start, stop in zip(offsets, offsets[1:])]
        assert columns["polygon_edges"].filter(pa.array(mine)).to_pylist() == pieces
    some = registry.cut_regions(rows.slice(3, 4))
    assert boxes[(owner >= 3) & (owner < 7)][:, 0].tolist() == some[1]["west"].to_pylist()


def test_cutting_no_polygon_makes_no_piece() -> None:
    none = np.zeros(1, np.int64)
    counts, boxes, offsets, numbers = cut_polygons(none, none, np.empty((0, 2)))
    assert (len(counts), boxes.shape, offsets.tolist(), len(numbers)) == (0, (0, 4), [0], 0)


def test_cutting_changes_no_argument() -> None:
    edges = np.array([0.0, 0.0, 4.0, 0.0, 4.0, 0.0, 0.0, 4.0, 0.0, 4.0, 0.0, 0.0])
    edges.setflags(write=False)
    boxes, offsets, numbers = cut_polygon(edges)
    assert len(offsets) == len(boxes) + 1 and offsets[-1] == len(numbers)
