"""The benchmarks of what is always on: how long each file takes under a watcher, and what stays flat over batches."""

import pytest

from benchmarks.registry import run_benchmark
from benchmarks.scenarios.answers import standing_memory
from benchmarks.scenarios.plans import balance_methods
from benchmarks.scenarios.streams import freshness, hostile, planner_latency, soak, year
from pststream.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.deep]


def test_each_file_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(freshness.SIZES, "small", (500, 6))
    monkeypatch.setattr(freshness, "WARM_FILES", 2)
    document = run_benchmark("freshness", "small", 1, Settings(spark_master="local[2]"), lambda _: None)
    figures = document["figures"]
    assert (figures["files"], figures["objects_per_second"]) == (4, 1000)
    assert 0 < figures["median_seconds"] <= figures["p99_seconds"] <= figures["max_seconds"]
    assert 1 <= figures["batches"] <= 7 and document["targets"] == {}


def test_latency_is_measured_by_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planner_latency.SIZES, "small", (300, 4))
    monkeypatch.setattr(freshness, "WARM_FILES", 1)
    monkeypatch.setattr(planner_latency, "KINDS", ("q2",))
    monkeypatch.setattr(planner_latency, "PLANNERS", ("metric", "plain_kd_tree"))
    figures = run_benchmark("planner-latency", "small", 1, Settings(engine="local"), lambda _: None)["figures"]
    for planner in planner_latency.PLANNERS:
        assert 0 < figures[f"q2_{planner}_median_seconds"] <= figures[f"q2_{planner}_max_seconds"]
    assert figures["q2_metric_matches_per_object"] == figures["q2_plain_kd_tree_matches_per_object"]


def test_each_method_migrates_from_the_same_start_while_files_land(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(balance_methods.SUBSCRIPTIONS, "small", 2_000)
    for name, files in (("WARM_FILES", 1), ("BEFORE", 2), ("AFTER", 6)):
        monkeypatch.setattr(balance_methods, name, files)
    figures = run_benchmark("balance-methods-1m", "small", 1, Settings(), lambda _: None)["figures"]
    assert figures["dp_moved_subscriptions"] <= figures["si_moved_subscriptions"]
    for method in ("gr", "dp", "si", "ra"):
        assert figures[f"{method}_moved_bytes"] > 0 < figures[f"{method}_select_ms"]
        shares = [figures[f"{method}_{name}"] for name in ("under_2s", "from_2s_to_5s", "over_5s")]
        assert sum(shares) == pytest.approx(1, abs=0.002)
        assert 0 < figures[f"{method}_median_seconds"] <= figures[f"{method}_max_seconds"]


@pytest.mark.chaos
def test_hostile_files_get_their_verdicts_and_cost_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(hostile.SIZES, "small", (300, 50, 0.05))
    settings = Settings(engine="local", spark_master="local[2]")
    document = run_benchmark("hostile", "small", 1, settings, lambda _: None)
    assert {name: target["met"] for name, target in document["targets"].items()} == dict.fromkeys(
        ("wrong_verdicts", "not_erased", "rows_lost", "matches_changed"), True
    )
    figures = document["figures"]
    assert figures["hostile_delayed_files"] >= figures["good_delayed_files"] and figures["hostile_max_rounds"] >= 1
    assert (figures["good_restarts"], figures["hostile_restarts"] > 0) == (0, True)
    assert figures["hostile_files"] > 40 and figures["hostile_memory_peak_mb"] > figures["good_memory_peak_mb"] / 2
    assert 0 < figures["hostile_median_seconds"] <= figures["hostile_p99_seconds"] <= figures["hostile_max_seconds"]


def test_each_part_of_a_long_run_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(soak.SIZES, "small", (300, 5))
    monkeypatch.setitem(soak.STANDING, "small", 30)
    monkeypatch.setattr(soak, "PARTS", 5)
    figures = run_benchmark("soak", "small", 1, Settings(engine="spark", spark_master="local[2]"), lambda _: None)[
        "figures"
    ]
    assert figures["batch_seconds_middle"] > 0 and figures["upkeep_seconds_last"] > 0
    assert figures["unnamed_files_last"] == 0 < figures["index_files_last"]
    assert min(figures[f"{kind}_mb_last"] for kind in ("driver", "jvm", "workers", "log")) > 0
    assert figures["answer_bytes_per_object_last"] > 1
    assert figures["answer_changes_mb_last"] > figures["answer_changes_mb_middle"]
    assert 0 < figures["answer_state_mb_last"] < figures["answer_bytes_per_object_last"] * 2 * soak.OBJECTS / 1e6


def test_memory_of_workers_is_measured_while_queries_are_inserted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(standing_memory.SIZES, "small", {"knn": (40,), "topk": (30,)})
    monkeypatch.setitem(standing_memory.STORED, "small", 200)
    settings = Settings(engine="spark", spark_master="local[2]")
    figures = run_benchmark("standing-memory", "small", 1, settings, lambda _: None)["figures"]
    for kind in ("knn_at_40", "topk_at_30"):
        assert min(figures[f"{kind}_{step}_worker_mb"] for step in ("fill", "batch")) > 1


def test_a_home_with_a_past_is_measured_beside_a_young_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(year.SIZES, "small", (300, 50))
    monkeypatch.setattr(year, "BATCHES", 2)
    figures = run_benchmark("year", "small", 1, Settings(spark_master="local[2]"), lambda _: None)["figures"]
    for age in ("young", "old"):
        assert min(figures[f"{age}_{name}_seconds"] for name in ("batch", "ledger", "sink", "page", "status")) > 0
    assert figures["batch_old_over_young"] > 0
