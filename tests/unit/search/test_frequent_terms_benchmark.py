"""The benchmark of standing frequent terms measures all it names, and fails if two ways have different answers."""

import pytest

from benchmarks.scenarios.answers import frequent_terms
from tests.counted_benchmark import run_counted


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(frequent_terms.SIZES, "small", (1_500, 3_000))
    monkeypatch.setitem(frequent_terms.REGIONS, "small", 300)
    monkeypatch.setitem(frequent_terms.CURVES, "small", {"1m": (50,), "10m": (400,)})


def test_the_benchmark_measures_all_it_names() -> None:
    figures = run_counted("frequent-terms")["figures"]
    assert set(frequent_terms.TARGETS) <= set(figures)
    for name in ("step_1h_reports", "step_1m_reports"):
        assert 250 < figures[name] <= 300
    assert figures["step_1m_reports_of_50_regions"] <= 50 < 300 < figures["step_10m_reports_of_400_regions"] <= 400
    assert {"step_1m_regions_in_half", "step_10m_regions_in_half"} <= set(figures)
    assert figures["step_1h_reports_at_1500"] > 250
    assert figures["step_1h_batch_objects"] == 3_000 // 72 // 2 * 2 and figures["compared_regions"] > 30


def test_ways_with_different_answers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {"single": frequent_terms.COUNT_WAYS["single"]}
    ways["other"] = lambda *asked: ways["single"](*asked[:-1], asked[-1] // 2)
    monkeypatch.setattr(frequent_terms, "COUNT_WAYS", ways)
    with pytest.raises(ValueError, match="two ways"):
        run_counted("frequent-terms")
