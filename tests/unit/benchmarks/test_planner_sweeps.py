"""The sweeps of Tornado are the paper's, and each point is measured."""

import pytest

from pststream.benchmarks.scenarios.plans import planner_sweeps
from pststream.benchmarks.scenarios.plans.planner_sweeps import SPACE_KM, Workload, list_workloads, make_style
from tests.counted_benchmark import run_counted


def test_the_sweeps_are_those_of_the_paper() -> None:
    workloads = list(list_workloads())
    points = [point for workload in workloads for point in workload.trials]
    assert len(points) == len(set(points))
    assert {"workers_4", "workers_100", "cells_500", "side_0.0005", "side_0.015", "frequent_0"} < set(points)
    assert make_style(side=0.015).side_km == (0.015 * SPACE_KM, 0.015 * SPACE_KM)
    assert 2_000 < SPACE_KM < 3_500


def test_each_point_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planner_sweeps.SIZES, "small", (400, 400, 1))
    trials = {"workers_2": (2, ("a_grid", "uniform"), ""), "cells_8": (2, ("a_grid",), "columns=8,rows=8")}
    monkeypatch.setattr(planner_sweeps, "list_workloads", lambda: iter([Workload(make_style(), trials)]))
    figures = run_counted("planner-sweeps")["figures"]
    for point in ("workers_2_a_grid", "workers_2_uniform", "cells_8_a_grid"):
        assert figures[f"{point}_throughput"] > 0
        assert 1 <= figures[f"{point}_copies"] <= 2
    assert "cells_8_uniform_copies" not in figures
