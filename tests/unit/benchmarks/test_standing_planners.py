"""The benchmark of planners on standing queries measures each of them, and a mix has all kinds."""

from collections import Counter

import pytest

from benchmarks.scenarios.plans import standing_planners
from benchmarks.scenarios.plans.standing_planners import draw_mixed
from pststream.pipeline.calibrate.measured_homes import STREAMS
from tests.counted_benchmark import run_counted


def test_a_mix_has_a_third_of_each() -> None:
    tables = draw_mixed(STREAMS["tw14"].draw(200, 1), 90, 1)
    kinds = Counter(kind for columns in tables for kind in columns["kind"].to_pylist())
    assert kinds == {"knn": 30, "range": 60}
    assert [columns.get("keywords") is not None for columns in tables] == [False, False, True]


def test_each_planner_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(standing_planners.SIZES, "small", (300, 300, 100))
    monkeypatch.setattr(standing_planners, "WORKERS", 3)
    stream, draw, _ = standing_planners.WORKLOADS["mixed"]
    planners = ("kd_tree", "dkm_sks", "auto")
    monkeypatch.setattr(standing_planners, "WORKLOADS", {"mixed": (stream, draw, planners)})
    figures = run_counted("planners-standing")["figures"]
    for planner in planners:
        assert figures[f"mixed_{planner}_throughput"] > 0
        for share in ("imbalance_share", "sent_share", "postings_share"):
            assert 0 <= figures[f"mixed_{planner}_{share}"] <= 1
        assert figures[f"mixed_{planner}_slowest_ms"] <= figures[f"mixed_{planner}_total_ms"]
        assert figures[f"mixed_{planner}_changes_per_object"] > 0
        assert figures[f"mixed_{planner}_model_total_ms"] > 0
        assert figures[f"mixed_{planner}_pieces"] >= 1
    least = min(figures[f"mixed_{planner}_slowest_ms"] for planner in ("kd_tree", "dkm_sks"))
    assert figures["mixed_auto_over_best"] == pytest.approx(figures["mixed_auto_slowest_ms"] / least, abs=0.01)
