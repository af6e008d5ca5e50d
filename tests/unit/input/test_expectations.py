"""Figures are compared with their thresholds as Great Expectations would compare them."""

import random

from pststream.input.expectations import FIGURES, Threshold, check_thresholds, landing_thresholds, table_thresholds
from pststream.settings import Settings
from tests.oracles.thresholds import unmet_figures

SETTINGS = Settings(gate_stale_seconds=86_400)


def draw_figure(rng: random.Random, threshold: Threshold) -> float | str | None:
    """Draw a figure at, near or far beyond its limits, or none."""
    if rng.random() < 0.2:
        return None
    if threshold.least is None and threshold.most is None:
        return rng.choice([None, "no column lon", "it is empty", ""])
    near = rng.choice([limit for limit in (threshold.least, threshold.most) if limit is not None])
    return rng.choice([near, near * (1 + 1e-12), near * 0.999, near - 1, near + 1, 0, 0.0, 1e18, -1.5])


def test_great_expectations_gives_the_same_results() -> None:
    rng = random.Random(5)
    cases = [landing_thresholds(kind, SETTINGS) for kind in ("objects", "requests")]
    cases += [table_thresholds(check) for check in FIGURES]
    cases.append(landing_thresholds("objects", Settings(gate_volume_factor=0, gate_bad_share=0)))
    for thresholds in cases:
        figures = [{one.figure: draw_figure(rng, one) for one in thresholds} for _ in range(60)]
        results = check_thresholds(figures, thresholds)
        checked = [{name for name, value in row.items() if value is not None} for row in figures]
        assert [{one.name for one in row.results} for row in results] == checked
        unmet = [{one.name for one in row.results if not one.success} for row in results]
        assert unmet == unmet_figures(figures, thresholds)
        assert {one.success for one in results} == {True, False} or len(thresholds) > 5
