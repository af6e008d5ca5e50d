"""The sweeps of Tornado and SSTD are the papers', and each point is measured."""

import pytest

from benchmarks.scenarios.plans import planner_sweeps
from benchmarks.scenarios.plans.planners import choose_figures
from benchmarks.support.sweeps import sstd, tornado
from benchmarks.support.sweeps.workloads import Trial, Workload
from tests.counted_benchmark import run_counted


def _points(paper: str) -> dict[str, tuple[str, ...]]:
    """Return the planners of each point."""
    listed = [item for workload in planner_sweeps.SWEEPS[paper]() for item in workload.trials.items()]
    points = {point: trial.planners for point, trial in listed}
    assert len(points) == len(listed)
    return points


def test_the_sweeps_are_those_of_the_papers() -> None:
    assert {"workers_4", "workers_100", "cells_500", "side_0.0005", "side_0.015", "frequent_0"} < set(
        _points("tornado")
    )
    space = tornado.SPACE_KM
    assert tornado.make_style(side=0.015).side_km == (0.015 * space, 0.015 * space)
    assert 2_000 < space < 3_500
    assert {"theta_32", "theta_64", "theta_256", "area_0.0001%", "area_1%", "keywords_3"} < set(_points("sstd"))
    side = sstd.make_style(area=1.0).side_km
    assert side is not None and side[0] ** 2 == pytest.approx(0.01 * sstd.SPACE_KM2)
    times = [workload.times for workload in sstd.list_workloads()]
    assert max(times) / min(times) == 20  # 10,000,000 over 500,000


def test_figures_have_a_number_for_the_imbalance_with_an_idle_worker() -> None:
    plan = {"throughput": 7, "imbalance": None, "model_imbalance": 1.5, "model_correlation": None, "copies": 1.0}
    figures = choose_figures(plan, ("throughput", "imbalance", "model_imbalance", "model_correlation"))
    assert figures == {"throughput": 7, "imbalance": 1e9, "model_imbalance": 1.5, "model_correlation": None}


def test_each_point_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planner_sweeps.SIZES, "small", (400, 400, 1))
    style = sstd.make_style(area=1.0)
    trials = {"theta_4": Trial(2, ("quadtree", "text"), "theta=4"), "theta_64": Trial(2, ("quadtree", "text"))}
    sweeps = {"sstd": lambda: iter([Workload(style, trials, 2.0, sstd.StreamObjects())])}
    monkeypatch.setattr(planner_sweeps, "SWEEPS", sweeps)
    document = run_counted("planner-sweeps")
    figures = document["figures"]
    for point in trials:
        assert figures[f"sstd_{point}_quadtree_copies"] == 1  # each cell belongs to one worker
        assert figures[f"sstd_{point}_text_copies"] == 1  # each object goes to one worker
        assert figures[f"sstd_{point}_text_subscriptions_stored"] == 2 * 840  # 40 come with the objects
        assert 840 <= figures[f"sstd_{point}_quadtree_subscriptions_stored"] < 2 * 840
