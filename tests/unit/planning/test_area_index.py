"""The index over areas finds the area that a look at each of them finds."""

import numpy as np
import pytest

from pststream.kernels.planning.split_subscriptions import find_nearest_areas
from pststream.planning.planners.by_subscription import build_area_index, nearest_areas
from tests.oracles.placement import closeness


def make_ranges(rng: np.random.Generator, count: int, side: int, greatest: int) -> np.ndarray:
    low = rng.integers(0, side, (count, 2))
    return np.hstack([low, np.minimum(low + rng.integers(0, greatest, (count, 2)), side - 1)]).astype(np.int32)


@pytest.mark.parametrize(
    ("count", "side", "greatest"), [(1, 5, 3), (16, 9, 4), (17, 40, 2), (300, 30, 30), (300, 500, 9), (300, 4, 2)]
)
def test_finds_what_a_look_at_each_area_finds(count: int, side: int, greatest: int) -> None:
    rng = np.random.default_rng(count + side)
    areas, ranges = make_ranges(rng, count, side, greatest), make_ranges(rng, 200, side, side)
    index = build_area_index(areas)
    _, entries = find_nearest_areas(ranges, index)
    expected = [
        max(range(count), key=lambda k: (closeness(tuple(areas[k].tolist()), tuple(own)), -k))
        for own in ranges.tolist()
    ]
    assert index.first[entries].tolist() == expected
    assert index.boxes[entries].tolist() == areas[expected].tolist()


def test_of_several_indexes_the_first_of_the_nearest_counts() -> None:
    rng = np.random.default_rng(4)
    areas, ranges = make_ranges(rng, 90, 30, 6), make_ranges(rng, 200, 30, 9)
    parts = [build_area_index(part) for part in (areas[:0], areas[:40], areas[40:])]
    assert nearest_areas(ranges, parts).tolist() == nearest_areas(ranges, [build_area_index(areas)]).tolist()
    assert nearest_areas(ranges, [parts[0]]).tolist() == ranges.tolist()
