"""The landing suite: a file that fails each threshold or just meets it, as Great Expectations would compare them."""

import random
import subprocess
import sys
from dataclasses import replace

import pytest

from pststream.input.expectations import (
    FIGURES,
    CheckResults,
    LandedFile,
    LandingHistory,
    Threshold,
    check_thresholds,
    compute_figures,
    fields_of,
    landing_thresholds,
    table_thresholds,
)
from pststream.input.row_chunks import REASONS
from pststream.settings import Settings
from tests.oracles.thresholds import unmet_figures

NOW = 1_800_000_000_000_000
DAY = 86_400_000_000
SETTINGS = Settings(gate_stale_seconds=86_400)
GOOD = LandedFile(2000, {("lat", "out_of_range"): 20}, NOW - DAY // 2)
HISTORY = LandingHistory([2000] * 20, NOW)


def check(
    landed: LandedFile, history: LandingHistory = HISTORY, kind: str = "objects", settings: Settings = SETTINGS
) -> CheckResults:
    figures = compute_figures(kind, landed, history, settings)
    (results,) = check_thresholds([figures], landing_thresholds(kind, settings))
    return results


def failed(
    landed: LandedFile, history: LandingHistory = HISTORY, kind: str = "objects", settings: Settings = SETTINGS
) -> list[str]:
    return [result.name for result in check(landed, history, kind, settings).results if not result.success]


def test_a_good_file_passes_every_expectation() -> None:
    results = check(GOOD)
    assert results.success and results.reasons == []
    names = {result.name for result in results.results}
    shares = {f"{how}_{field}" for how in ("missing", "invalid") for field in fields_of("objects")}
    assert names == shares | {"unreadable", "volume", "stale"}


@pytest.mark.parametrize("kind", ["objects", "requests"])
def test_a_share_may_be_at_most_so_great(kind: str) -> None:
    cases = {f"missing_{field}": (field, "missing") for field in fields_of(kind)}
    cases |= {f"invalid_{field}": (field, "out_of_range") for field in fields_of(kind)}
    cases["unreadable"] = ("", "not_json")

    def failing(
        rows: int, bad: int, history: LandingHistory = HISTORY, settings: Settings = SETTINGS
    ) -> list[list[str]]:
        figures = [
            compute_figures(kind, LandedFile(rows, {fault: bad}, None), history, settings) for fault in cases.values()
        ]
        results = check_thresholds(figures, landing_thresholds(kind, settings))
        return [[result.name for result in one.results if not result.success] for one in results]

    none: list[list[str]] = [[] for _ in cases]
    assert failing(2000, 1001) == [[name] for name in cases]
    assert failing(2000, 1000) == none
    assert failing(999, 999, LandingHistory([], NOW)) == none
    assert failing(2000, 2000, settings=Settings(gate_bad_share=1)) == none


def test_a_fault_of_an_unknown_field_counts_as_unreadable() -> None:
    assert failed(replace(GOOD, faults={("of a later version", "missing"): 1001})) == ["unreadable"]


def test_faults_of_one_field_add_up() -> None:
    reasons = [reason for reason in REASONS if reason != "missing"]
    faults = {("ts", reason): 1000 // len(reasons) + 1 for reason in reasons}
    assert failed(replace(GOOD, faults=faults)) == ["invalid_ts"]


def test_volume_is_compared_with_the_usual_volume() -> None:
    usual = LandingHistory([2000] * 25, NOW)
    assert failed(replace(GOOD, rows=200_001), usual) == ["volume"]
    assert failed(replace(GOOD, rows=200_000), usual) == []
    assert failed(replace(GOOD, rows=19, faults={}), usual) == ["volume"]
    assert failed(replace(GOOD, rows=20, faults={}), usual) == []
    assert failed(replace(GOOD, rows=0, faults={}, greatest=None), usual, "requests") == ["volume"]
    # Too few files, files too small, small files of long ago, switched off.
    for past in ([2000] * 19, [999] * 20, [9] * 200 + [200_000] * 100):
        assert failed(replace(GOOD, rows=20_000_000), LandingHistory(past, NOW)) == []
    assert failed(replace(GOOD, rows=0), usual, settings=Settings(gate_volume_factor=0)) == []


def test_a_file_may_be_old_where_nobody_says_otherwise() -> None:
    assert failed(replace(GOOD, greatest=NOW - DAY - 1)) == ["stale"]
    assert failed(replace(GOOD, greatest=NOW - DAY)) == []
    assert failed(replace(GOOD, greatest=0), settings=Settings()) == []


@pytest.mark.parametrize("kind", ["objects", "requests"])
def test_a_file_that_cannot_be_read_fails_alone(kind: str) -> None:
    bad = LandedFile(0, {}, None, "no column lon; it has: a, b")
    rows = [compute_figures(kind, landed, HISTORY, SETTINGS) for landed in (GOOD, bad, GOOD)]
    first, second, third = check_thresholds(rows, landing_thresholds(kind, SETTINGS))
    assert first.success and third.success
    assert second.reasons == ["no column lon; it has: a, b"]


def test_each_reason_has_the_figure_and_the_limit() -> None:
    results = check(replace(GOOD, rows=2001, faults={("lon", "missing"): 1500}, greatest=NOW - 30 * DAY))
    assert results.reasons == [
        "0.7496 of the rows have no lon; at most 0.5 may",
        "its greatest ts is 2.592e+06 s old; at most 86400 s may be",
    ]


def test_a_first_small_file_is_not_checked_and_great_expectations_not_loaded() -> None:
    code = """
import sys
from pststream.input.expectations import check_thresholds
from pststream.input.expectations import LandedFile, LandingHistory, compute_figures, landing_thresholds
from pststream.settings import Settings
bad = LandedFile(3, {("lat", "out_of_range"): 3}, 4_000_000_000_000_000)
figures = compute_figures("objects", bad, LandingHistory([], 0), Settings())
(results,) = check_thresholds([figures], landing_thresholds("objects", Settings()))
assert results.success and not results.results
assert "great_expectations" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def draw_figure(rng: random.Random, threshold: Threshold) -> float | str | None:
    """Draw a figure at, near or far beyond its limits, or none."""
    if rng.random() < 0.2:
        return None
    if threshold.least is None and threshold.most is None:
        return rng.choice([None, "no column lon", "it is empty", ""])
    near = rng.choice([limit for limit in (threshold.least, threshold.most) if limit is not None])
    return rng.choice([near, near * (1 + 1e-12), near * 0.999, near - 1, near + 1, 0, 0.0, 1e18, -1.5])


@pytest.mark.deep
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
