"""Bounds of scores are never below what they bound, and rows of cells are those of a plain search."""

import math
import random

import numpy as np
import pytest

from pststream.kernels.matching.contains_point import haversine
from pststream.kernels.questions.codes import LEVELS, place_codes
from pststream.kernels.questions.question_arrays import first_row_of
from pststream.kernels.questions.scores import DEGREE, greatest_place_score, least_cosine, least_haversine_of_cell
from pststream.search.object_segments import first_rows_of_cells
from tests.worlds import LATS, LONS

EARTH_RADIUS_M = 6_371_008.8


def some_place(rnd: random.Random) -> tuple[float, float]:
    if rnd.random() < 0.3:
        return rnd.choice((*LONS, -180.0, 180.0)), rnd.choice((*LATS, -90.0, 90.0))
    return rnd.uniform(-180, 180), rnd.uniform(-90, 90)


@pytest.mark.parametrize("level", range(LEVELS + 1))
def test_no_place_of_a_cell_scores_more_than_its_bound(level: int) -> None:
    rnd = random.Random(level)
    for _ in range(300):
        lon, lat = some_place(rnd)
        other_lon, other_lat = some_place(rnd)
        if rnd.random() < 0.5:  # near
            other_lon = min(max(lon + rnd.gauss(0, 0.01), -180.0), 180.0)
            other_lat = min(max(lat + rnd.gauss(0, 0.01), -90.0), 90.0)
        (code,) = place_codes(np.array([other_lon]), np.array([other_lat]))
        cell = int(code) >> 2 * (LEVELS - level)
        least = least_haversine_of_cell(lon, lat, least_cosine(lat * DEGREE), cell, level)
        exact = haversine(lon, lat, other_lon, other_lat)
        assert least <= exact
        for scale in (1.0, 5_000.0, math.pi * EARTH_RADIUS_M):
            metres = 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(exact)))
            assert greatest_place_score(least, 0.7, scale) >= 0.7 * max(0.0, 1.0 - metres / scale) - 1e-9


@pytest.mark.parametrize("count", [1, 63, 64, 300, 5000])
def test_first_rows_of_codes(count: int) -> None:
    rnd = np.random.default_rng(count)
    codes = np.sort(rnd.integers(0, 1 << 32, count).astype(np.uint32))
    codes[: count // 3] = np.sort(rnd.integers(0, 100_000, count // 3))
    codes.sort()
    rows = first_rows_of_cells(codes)
    wanted = [0, 1, (1 << 32) - 1, 1 << 32, 1 << 16, 3 << 30, *codes[:200].tolist()]
    wanted += rnd.integers(0, 1 << 32, 200).tolist()
    for code in wanted:
        assert first_row_of(codes, rows, code) == np.searchsorted(codes, code)
