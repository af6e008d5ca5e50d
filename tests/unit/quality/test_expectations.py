"""Great Expectations and the plain comparison agree on every figure."""

import random

from pststream.quality.expectations import (
    Threshold,
    check_by_comparison,
    check_by_great_expectations,
    check_thresholds,
)
from pststream.quality.landing_expectations import landing_thresholds
from pststream.quality.table_expectations import FIGURES, table_thresholds
from pststream.settings import Settings

SETTINGS = Settings(gate_stale_seconds=86_400)


def draw_figure(rng: random.Random, threshold: Threshold) -> float | str | None:
    """Draw a figure at, near or far beyond its limits, or none."""
    if rng.random() < 0.2:
        return None
    if threshold.least is None and threshold.most is None:
        return rng.choice([None, "no column lon", "it is empty", ""])
    near = rng.choice([limit for limit in (threshold.least, threshold.most) if limit is not None])
    return rng.choice([near, near * (1 + 1e-12), near * 0.999, near - 1, near + 1, 0, 0.0, 1e18, -1.5])


def test_both_ways_of_checking_give_the_same_results() -> None:
    rng = random.Random(5)
    cases = [landing_thresholds(kind, SETTINGS) for kind in ("objects", "requests")]
    cases += [table_thresholds(check) for check in FIGURES]
    cases.append(landing_thresholds("objects", Settings(gate_volume_factor=0, gate_bad_share=0)))
    for thresholds in cases:
        figures = [{one.figure: draw_figure(rng, one) for one in thresholds} for _ in range(60)]
        expected = check_by_great_expectations(figures, thresholds)
        assert check_by_comparison(figures, thresholds) == expected
        assert check_thresholds(figures, thresholds) == expected
        assert {one.success for one in expected} == {True, False} or len(thresholds) > 5
