"""The bounds of the raster: robust to outliers, never flat, inside the world."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pststream.planning.raster import MIN_WIDTH, fit_raster

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


@settings(max_examples=100, deadline=None)
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
