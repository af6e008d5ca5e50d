"""The regions that half a step can serve, from the figures of a run."""

import pytest

from benchmarks.region_curve import regions_in_half


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [({100: 60.0}, 50), ({100: 20.0, 300: 40.0}, 200), ({100: 20.0}, 100), ({100: 40.0, 200: 35.0}, 75)],
)
def test_regions_in_half_a_minute(seconds: dict[int, float], expected: int) -> None:
    assert regions_in_half("1m", seconds) == expected
