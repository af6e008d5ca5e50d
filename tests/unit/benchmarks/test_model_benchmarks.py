"""The benchmarks that judge planners by the load model alone run and hang together."""

import numpy as np
import pytest

from benchmarks.scenarios.plans import paper_model, phase_one, planner_options
from benchmarks.support.paper_workloads import describe_workload
from pststream.base.progress import no_progress
from pststream.pipeline.calibrate.measured_homes import BenchHome
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from tests.counted_benchmark import run_counted


def test_planners_are_judged_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(paper_model.SIZES, "small", (600, 600, 2))
    monkeypatch.setattr(paper_model, "VOCABULARIES", (5_000,))
    figures = run_counted("paper-model")["figures"]
    for case in paper_model.list_cases():
        for name in paper_model.PLANNERS:
            total, greatest = figures[f"{case}_{name}_total"], figures[f"{case}_{name}_greatest"]
            assert total[1] <= total[0] <= total[2]
            assert greatest[1] <= total[1] <= paper_model.WORKERS * greatest[1] * 1.001
            assert figures[f"{case}_{name}_imbalance"][1] >= 1
        assert figures[f"{case}_hypergraph_total"][1] == figures[f"{case}_hypergraph_total"][2], "of one seed"


def test_more_blocks_balance_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planner_options.SIZES, "small", (600, 600, 2))
    figures = run_counted("planner-options")["figures"]
    more_blocks = [figures[f"q3_and_grid_blocks_{blocks}_greatest"][0] for blocks in (16, 128)]
    assert more_blocks[1] <= more_blocks[0]


def test_moves_of_phase_one_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(phase_one.SIZES, "small", (1_000, 1_000))
    monkeypatch.setattr(phase_one, "PLANNERS", ("grid",))
    figures = run_counted("phase-one")["figures"]
    acted = [value for name, value in figures.items() if name.endswith("_phase_one_moves")]
    assert figures["calls"] == len(acted) == 8
    assert figures["calls_in_which_phase_one_acts"] == sum(moves > 0 for moves in acted)


def test_deletions_take_subscriptions_whose_lifetime_ends_first(tmp_path) -> None:
    bench = BenchHome(str(tmp_path / "home"), 5, no_progress)
    bench.add_subscriptions(1_000, SubscriptionStyle())
    first = bench.live.copy()
    bench.add_subscriptions(300, SubscriptionStyle(), delete=300)
    assert len(bench.live) == 1_000
    gone = np.flatnonzero(~np.isin(first, bench.live))
    assert len(gone) == 300
    assert 0 < gone.max() - 299 < 900, "not the oldest alone, as lifetimes differ, but mostly these"
    assert np.median(gone) < 400


def test_a_workload_is_said_in_full() -> None:
    text = describe_workload(SubscriptionStyle("q2", "or"), "no requests")
    assert text == "Q2, 1 to 3 keywords joined by OR, frequent_share 1 (as the paper), 200,000 words, no requests"
