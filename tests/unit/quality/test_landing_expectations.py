"""The landing suite: a file that fails each expectation, and the same file when it just does not."""

import subprocess
import sys
from dataclasses import replace

import pytest

from pststream.quality.expectations import Judgement, judge
from pststream.quality.landing_expectations import FIELDS, Landed, Past, figures, landing_suite
from pststream.quality.reject_reasons import REASONS
from pststream.settings import Settings

NOW = 1_800_000_000_000_000
DAY = 86_400_000_000
SETTINGS = Settings(gate_stale_seconds=86_400)
GOOD = Landed(2000, {("lat", "out_of_range"): 20}, NOW - DAY // 2)
PAST = Past([2000] * 20, NOW, NOW - DAY)


def judged(landed: Landed, past: Past = PAST, kind: str = "objects", settings: Settings = SETTINGS) -> Judgement:
    (found,) = judge([figures(kind, landed, past, settings)], landing_suite(kind, settings))
    return found


def failed(landed: Landed, past: Past = PAST, kind: str = "objects", settings: Settings = SETTINGS) -> list[str]:
    return [result.name for result in judged(landed, past, kind, settings).results if not result.success]


def test_a_good_file_passes_every_expectation() -> None:
    found = judged(GOOD)
    assert found.success and found.reasons == []
    names = {result.name for result in found.results}
    shares = {f"{how}_{field}" for how in ("missing", "invalid") for field in FIELDS["objects"]}
    assert names == shares | {"unreadable", "volume", "ahead", "stale"}


@pytest.mark.parametrize("kind", list(FIELDS))
def test_a_share_may_be_at_most_so_great(kind: str) -> None:
    cases = {f"missing_{field}": (field, "missing") for field in FIELDS[kind]}
    cases |= {f"invalid_{field}": (field, "out_of_range") for field in FIELDS[kind]}
    cases["unreadable"] = ("", "not_json")

    def failing(rows: int, bad: int, past: Past = PAST, settings: Settings = SETTINGS) -> list[list[str]]:
        told = [figures(kind, Landed(rows, {fault: bad}, None), past, settings) for fault in cases.values()]
        found = judge(told, landing_suite(kind, settings))
        return [[result.name for result in one.results if not result.success] for one in found]

    none: list[list[str]] = [[] for _ in cases]
    assert failing(2000, 1001) == [[name] for name in cases]
    assert failing(2000, 1000) == none
    assert failing(999, 999, Past([], NOW, None)) == none
    assert failing(2000, 2000, settings=Settings(gate_bad_share=1)) == none


def test_a_fault_of_an_unknown_field_counts_as_unreadable() -> None:
    assert failed(replace(GOOD, faults={("of a later version", "missing"): 1001})) == ["unreadable"]


def test_faults_of_one_field_add_up() -> None:
    reasons = [reason for reason in REASONS if reason != "missing"]
    faults = {("ts", reason): 1000 // len(reasons) + 1 for reason in reasons}
    assert failed(replace(GOOD, faults=faults)) == ["invalid_ts"]


def test_volume_is_held_against_what_is_usual() -> None:
    usual = Past([2000] * 25, NOW, None)
    assert failed(replace(GOOD, rows=200_001), usual) == ["volume"]
    assert failed(replace(GOOD, rows=200_000), usual) == []
    assert failed(replace(GOOD, rows=19, faults={}), usual) == ["volume"]
    assert failed(replace(GOOD, rows=20, faults={}), usual) == []
    assert failed(replace(GOOD, rows=0, faults={}, greatest=None), usual, "requests") == ["volume"]
    # Too few files, files too small, small files of long ago, switched off.
    for past in ([2000] * 19, [999] * 20, [9] * 200 + [200_000] * 100):
        assert failed(replace(GOOD, rows=20_000_000), Past(past, NOW, None)) == []
    assert failed(replace(GOOD, rows=0), usual, settings=Settings(gate_volume_factor=0)) == []


def test_a_file_may_be_ahead_of_the_clock_or_of_the_log() -> None:
    week = 7 * DAY
    assert failed(replace(GOOD, greatest=NOW + week + 1)) == ["ahead"]
    assert failed(replace(GOOD, greatest=NOW + week)) == []
    assert failed(replace(GOOD, greatest=NOW + 99 * week), Past(PAST.rows, NOW, NOW + 98 * week)) == []
    assert failed(replace(GOOD, greatest=NOW + 99 * week), Past([], NOW, None)) == []
    assert failed(replace(GOOD, greatest=NOW + 99 * week), settings=Settings(gate_ahead_seconds=0)) == []


def test_a_file_may_be_old_where_nobody_says_otherwise() -> None:
    assert failed(replace(GOOD, greatest=NOW - DAY - 1)) == ["stale"]
    assert failed(replace(GOOD, greatest=NOW - DAY)) == []
    assert failed(replace(GOOD, greatest=0), settings=Settings()) == []


@pytest.mark.parametrize("kind", ["objects", "requests"])
def test_a_file_that_cannot_be_read_fails_alone(kind: str) -> None:
    bad = Landed(0, {}, None, "no column lon; it has: a, b")
    rows = [figures(kind, landed, PAST, SETTINGS) for landed in (GOOD, bad, GOOD)]
    first, second, third = judge(rows, landing_suite(kind, SETTINGS))
    assert first.success and third.success
    assert second.reasons == ["no column lon; it has: a, b"]


def test_each_reason_tells_the_figure_and_the_limit() -> None:
    found = judged(replace(GOOD, rows=2001, faults={("lon", "missing"): 1500}, greatest=NOW + 30 * DAY))
    assert found.reasons == [
        "0.7496 of the rows lack lon; at most 0.5 may",
        "its greatest ts is 2.592e+06 s ahead; at most 604800 s may be",
    ]


def test_a_newcomers_file_has_nothing_to_judge_and_loads_nothing() -> None:
    code = """
import sys
from pststream.quality.expectations import judge
from pststream.quality.landing_expectations import Landed, Past, figures, landing_suite
from pststream.settings import Settings
bad = Landed(3, {("lat", "out_of_range"): 3}, 4_000_000_000_000_000)
told = judge([figures("objects", bad, Past([], 0, None), Settings())], landing_suite("objects", Settings()))
assert told[0].success and not told[0].results
assert "great_expectations" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
