"""The benchmarks of mapping, selection and migration run, at a size of their own, and their figures hang together."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scenarios.plans import adjust, balance, mapping, migration
from benchmarks.support.measured_homes import BenchHome
from tests.commands import Home
from tests.counted_benchmark import run_counted
from tests.unbalanced_homes import write_uneven_loads

pytestmark = pytest.mark.deep


def test_the_hungarian_mapping_moves_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mapping.SIZES, "small", (2_000, 4_000))
    figures = run_counted("balance-mapping")["figures"]
    assert figures["row_bytes"] > 10
    for planner in mapping.PLANNERS:
        moved = [figures[f"{planner}_{method}_moved_bytes"] for method in ("hungarian", "greedy", "first", "random")]
        assert 0 <= moved[0] == min(moved)
        assert moved[0] < max(moved)


def test_no_selection_moves_less_than_dp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(balance.SIZES, "full", (2_000, 4_000))
    monkeypatch.setattr(balance, "RANDOM_TRIALS", 3)
    document = run_counted("balance-cost", "full")
    json.dumps(document)
    over = [document["figures"][f"q1_{parts}_{m}_over_dp"] for parts in ("cells", "blocks") for m in ("gr", "si", "ra")]
    assert min(over) >= 1
    assert set(document["targets"]) < set(document["figures"])


def test_a_migration_moves_about_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(migration.SIZES, "small", (4_000, 2_000))
    monkeypatch.setattr(migration, "SHARES", (0.01,))
    monkeypatch.setattr(migration, "BATCHES", 1)
    document = run_counted("migration")
    figures = document["figures"]
    assert 10 <= figures["1_percent_moved"] <= 120
    assert figures["1_percent_moved_bytes"] > 0 and figures["1_percent_seconds"] > 0
    assert document["targets"]["next_batch_over_before"]["target"] == 1.2


@pytest.mark.spark
def test_balancers_are_compared_from_the_same_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same matches under all of them, or the benchmark fails.

    The balancers read loads that grow with the square of the objects: at this size measured CPU time is noise.
    """
    unbalance = adjust._unbalance

    def unbalance_by_counts(bench: BenchHome, *arguments: Any) -> None:
        unbalance(bench, *arguments)
        write_uneven_loads(Home(Path(bench.home.path)))

    monkeypatch.setattr(adjust, "_unbalance", unbalance_by_counts)
    monkeypatch.setitem(adjust.SIZES, "small", (1_000, 4_000))
    chosen = {
        "objects_50m": replace(adjust.IMBALANCES["objects_50m"], methods=("fm", "gr")),
        "scale_0.4": replace(adjust.IMBALANCES["scale_0.4"], methods=("shift",)),
        "subscriptions_1x": replace(adjust.IMBALANCES["subscriptions_1x"], methods=("pm_fm",)),
    }
    monkeypatch.setattr(adjust, "IMBALANCES", chosen)
    figures = run_counted("adjust")["figures"]
    for name, case in chosen.items():
        assert figures[f"{name}_none_moved_subscriptions"] == 0
        for method in case.methods:
            assert figures[f"{name}_{method}_throughput"] > 0 and figures[f"{name}_{method}_imbalance"] >= 1
            assert figures[f"{name}_{method}_moved_subscriptions"] > 0
