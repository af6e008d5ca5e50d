"""The raster and its curve, and sums over its rectangles against counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pststream.planning.load_model import CostModel
from pststream.planning.raster import MIN_WIDTH, fit_raster, hilbert_walk
from pststream.planning.region_counts import build_region_counts
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample
from tests.fuzz.cases import examples
from tests.oracles import dispatch as slow
from tests.plans import samples, unpack


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (2, 2), (64, 64), (1, 5), (7, 3), (3, 33)])
def test_visits_each_block_once(columns: int, rows: int) -> None:
    x, y = hilbert_walk(columns, rows)
    assert sorted(zip(x.tolist(), y.tolist())) == [(i, j) for i in range(columns) for j in range(rows)]


@pytest.mark.parametrize("side", [1, 2, 4, 32, 64])
def test_never_jumps(side: int) -> None:
    x, y = hilbert_walk(side, side)
    assert set((np.abs(np.diff(x)) + np.abs(np.diff(y))).tolist()) <= {1}


NONE = np.empty(0)
NO_BOXES = np.empty((0, 4))
RNG = np.random.default_rng(7)


def test_outliers_do_not_stretch_it() -> None:
    lon, lat = RNG.uniform(10.0, 12.0, 10_000), RNG.uniform(40.0, 41.0, 10_000)
    lon[:5], lat[:5] = -170.0, -80.0
    grid = fit_raster(lon, lat, NO_BOXES)
    assert (grid.columns, grid.rows) == (512, 512)
    assert [grid.west, grid.south, grid.east, grid.north] == pytest.approx([10.0, 40.0, 12.0, 41.0], abs=0.01)


def test_large_boxes_do_not_stretch_it() -> None:
    lon, lat = RNG.uniform(100.0, 102.0, 2000), RNG.uniform(40.0, 41.0, 2000)
    grid = fit_raster(lon, lat, np.tile([-180.0, -90.0, 180.0, 90.0], (500, 1)))
    assert grid.west > 99.9


def test_subscriptions_count_if_objects_are_few() -> None:
    middles = RNG.uniform(0.0, 1.0, (5000, 2))
    grid = fit_raster(np.array([0.5]), np.array([0.5]), np.hstack([middles - 0.1, middles + 0.1]), 16, 8)
    assert [grid.west, grid.south, grid.east, grid.north] == pytest.approx([0.0, 0.0, 1.0, 1.0], abs=0.01)
    assert (grid.columns, grid.rows) == (16, 8)


def test_without_data_it_is_the_world() -> None:
    for lon in (NONE, np.array([np.nan, np.inf])):
        grid = fit_raster(lon, lon, NO_BOXES)
        assert (grid.west, grid.south, grid.east, grid.north) == (-180.0, -90.0, 180.0, 90.0)


@pytest.mark.parametrize("point", [(0.0, 0.0), (180.0, 90.0), (-180.0, -90.0), (13.4, 52.5)])
def test_one_point_many_times(point: tuple[float, float]) -> None:
    grid = fit_raster(np.full(5000, point[0]), np.full(5000, point[1]), NO_BOXES)
    assert grid.east - grid.west == pytest.approx(MIN_WIDTH)
    assert grid.north - grid.south == pytest.approx(MIN_WIDTH)
    assert grid.west <= point[0] <= grid.east
    assert grid.south <= point[1] <= grid.north


@examples(100)
@given(
    arrays.arrays(np.float64, st.tuples(st.integers(0, 30), st.just(2)), elements=st.floats(-1e3, 1e3)),
    arrays.arrays(np.float64, st.tuples(st.integers(0, 30), st.just(4)), elements=st.floats(-180, 180)),
)
def test_never_flat_and_in_the_world(points: np.ndarray, boxes: np.ndarray) -> None:
    grid = fit_raster(points[:, 0], points[:, 1], boxes)
    assert -180.0 <= grid.west < grid.east <= 180.0
    assert -90.0 <= grid.south < grid.north <= 90.0
    assert min(grid.east - grid.west, grid.north - grid.south) >= MIN_WIDTH * 0.999
    assert fit_raster(points[::-1, 0], points[::-1, 1], boxes[::-1]) == grid


@examples(100)
@given(samples(), st.integers(1, 9), st.integers(1, 9), st.data())
def test_equals_counting(sample: WorkloadSample, columns: int, rows: int, data: st.DataObject) -> None:
    grid = DispatchGrid(-10.0, 30.0, 30.0, 60.0, columns, rows)
    x0, x1 = sorted(data.draw(st.tuples(*[st.integers(0, columns - 1)] * 2)))
    y0, y1 = sorted(data.draw(st.tuples(*[st.integers(0, rows - 1)] * 2)))
    cells = {y * columns + x for y in range(y0, y1 + 1) for x in range(x0, x1 + 1)}
    posts = unpack(sample.post_offsets, sample.post_terms)
    covered = [set(slow.cells_of(grid, box)) if post else set() for box, post in zip(sample.boxes.tolist(), posts)]
    live = {term for terms in posts for term in terms}
    terms = unpack(sample.term_offsets, sample.terms)
    inside = [
        cell
        for cell, ids in zip(map(slow.cell_of, [grid] * sample.objects, sample.lon, sample.lat), terms)
        if cell in cells and live & set(ids)
    ]
    counts = build_region_counts(sample, grid)
    reads = unpack(sample.term_offsets, sample.reads)
    at = map(slow.cell_of, [grid] * sample.objects, sample.lon, sample.lat)
    assert counts.reads(x0, y0, x1, y1) == sum(sum(read) for cell, read in zip(at, reads) if cell in cells)
    assert counts.objects(x0, y0, x1, y1) == len(inside)
    assert counts.subscriptions(x0, y0, x1, y1) == sum(bool(box & cells) for box in covered)
    pairs = sum(cell in box for cell in inside for box in covered)
    together = [int(counts.objects(x0, y0, x1, y1)), pairs, int(counts.reads(x0, y0, x1, y1))]
    assert counts.objects_pairs_reads(x0, y0, x1, y1).tolist() == together
    assert counts.objects(x0, y0, x0 - 1, y1) == counts.subscriptions(x0, y0, x1, y0 - 1) == 0


@examples(20)
@given(samples())
def test_takes_arrays(sample: WorkloadSample) -> None:
    counts = build_region_counts(sample, DispatchGrid(-10.0, 30.0, 30.0, 60.0, 8, 8))
    rates = CostModel(1.0, 2.0, 3.0, 4.0, 5.0).rates(sample)
    last = np.arange(8)
    for question in (counts.objects, counts.subscriptions, counts.reads):
        assert question(0, 2, last, 5).tolist() == [int(question(0, 2, x, 5)) for x in range(8)]
    each = [counts.objects_pairs_reads(0, 2, x, 5).tolist() for x in range(8)]
    assert counts.objects_pairs_reads(0, 2, last, 5).T.tolist() == each
    assert counts.load(rates, 0, 2, last, 5).tolist() == [float(counts.load(rates, 0, 2, x, 5)) for x in range(8)]
