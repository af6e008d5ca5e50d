"""The benchmark of planners runs, at a size of its own."""

from itertools import product

import pytest

from benchmarks.scenarios.plans import paper_job, planners, planners_large, planning, scalability
from pststream.base.names import PLANNERS
from pststream.pipeline.calibrate import calibrate
from tests.counted_benchmark import run_counted

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_planners_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planners.SIZES, "small", (2_000, 2_000))
    monkeypatch.setattr(planners, "WORKLOADS", {"q3": planners.WORKLOADS["q3"]})
    document = run_counted("planners")
    for name in ("hybrid", "grid", "hypergraph"):
        assert document["figures"][f"q3_{name}_throughput"] > 0
    single = max(document["figures"][f"q3_{name}_throughput"] for name in PLANNERS if name != "auto")
    ratio = document["figures"]["q3_auto_throughput"] / single
    assert document["figures"]["q3_auto_over_best"] == pytest.approx(ratio, abs=0.001)
    chosen = document["figures"]["q3_auto_made_by"]
    assert chosen in PLANNERS and chosen != "auto"


def test_throughput_is_measured_by_the_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scalability.SIZES, "small", (2_000, 2_000, 1))
    monkeypatch.setattr(scalability, "NUMBERS", (2, 3))
    figures = run_counted("scalability")["figures"]
    for workload, planner, workers in product(scalability.WORKLOADS, scalability.PLANNERS, (2, 3)):
        name = f"{workload}_{planner}_{workers}_workers"
        assert figures[f"{name}_throughput"] > 0
        assert 1 <= figures[f"{name}_max_over_mean"] <= workers


def test_planners_of_the_paper_are_measured_on_its_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(paper_job.SIZES, "small", (2_000, 2_000, 1))
    monkeypatch.setattr(paper_job, "PLANNERS", ("hybrid", "metric"))
    document = run_counted("paper-job-uk")
    figures = document["figures"]
    assert "Q2, 1 to 3 keywords joined by AND or OR, frequent_share 1 (as the paper)" in figures["q2_workload"]
    for kind in ("q1", "q2", "q3"):
        assert figures[f"{kind}_metric_worker_bytes"] > 0 < figures[f"{kind}_metric_dispatch_bytes"]


def test_more_subscriptions_are_measured_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planners_large.SIZES, "small", ((1_000, 2_000), 2_000))
    monkeypatch.setattr(planners_large, "PLANNERS", ("hybrid", "kd_tree"))
    monkeypatch.setattr(planners_large, "WANTED", {"q2": 0.98})
    document = run_counted("planners-large")
    figures = document["figures"]
    for workload in ("q2_0.001m", "q2_0.002m"):
        ratio = figures[f"{workload}_hybrid_throughput"] / figures[f"{workload}_kd_tree_throughput"]
        assert figures[f"{workload}_hybrid_over_best"] == pytest.approx(ratio, abs=0.01)


def test_time_and_memory_of_planning_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planning.SIZES, "small", (500, 500, 100))
    figures = run_counted("planning")["figures"]
    assert {f"{name}_seconds" for name in PLANNERS} < set(figures)
    assert all(figures[f"{name}_seconds"] > 0 for name in PLANNERS)
    assert figures["share_seconds"] < 60 and figures["merge_seconds"] < 60
    assert 0.05 < figures["peak_memory_gb"] < 24


def test_constants_of_the_model_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(calibrate.SIZES, "small", (2_000, 2_000))
    monkeypatch.setitem(calibrate.KNN_SIZES, "small", (200, 400))
    monkeypatch.setattr(calibrate, "PLANS", (("kd_tree", 2), ("grid", 3)))
    monkeypatch.setattr(calibrate, "ROUNDS", 1)
    figures = run_counted("calibrate")["figures"]
    assert 3 * (2 + 3) + 3 * (2 + 2) <= figures["points"] <= 2 * 3 * (2 + 3)
    assert all(figures[f"cost_{name}"] >= 0 for name in ("check", "object", "match", "match_knn"))
    assert all(0 < figures[f"cost_{name}"] < 1e-2 for name in ("insert", "delete"))
    for kind in ("range", "knn", "knn_by_range"):
        assert figures[f"{kind}_total_error"] == pytest.approx(
            abs(figures[f"{kind}_total_over_measured"] - 1), abs=1e-4
        )
