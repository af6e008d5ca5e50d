"""The curve of regions against steps, from the figures of a run."""

import pytest

from pststream.benchmarks.region_curve import HEAD, region_curve, regions_in_half

FIGURES = {
    "regions": 1_000, "step_1h_seconds": 50.0, "step_1h_cpu_seconds": 60.0, "step_1h_seconds_at_7": 1.0,
    "step_10m_seconds": 200.0, "step_10m_cpu_seconds": 210.0,
    "step_10m_seconds_of_3000_regions": 400.0, "step_10m_cpu_seconds_of_3000_regions": 500.0,
    "step_1m_seconds": 70.0, "step_1m_cpu_seconds": 80.0,
    "step_1m_seconds_of_200_regions": 20.0, "step_1m_cpu_seconds_of_200_regions": 30.0,
}  # fmt: skip


def test_each_step_has_its_numbers_of_regions() -> None:
    assert region_curve(FIGURES, str) == [
        HEAD,
        ("---",) * 6,
        ("1h", "1000", "50.0", "60.0", "1800", "1000 or more"),
        ("10m", "1000", "200.0", "210.0", "300", ""),
        ("10m", "3000", "400.0", "500.0", "300", "about 2000"),
        ("1m", "200", "20.0", "30.0", "30", ""),
        ("1m", "1000", "70.0", "80.0", "30", "about 360"),
    ]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [({100: 60.0}, 50), ({100: 20.0, 300: 40.0}, 200), ({100: 20.0}, 100), ({100: 40.0, 200: 35.0}, 75)],
)
def test_regions_in_half_a_minute(seconds: dict[int, float], expected: int) -> None:
    assert regions_in_half("1m", seconds) == expected
