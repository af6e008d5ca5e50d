"""Benchmark planners by what their papers vary: Tornado and SSTD (support/sweeps).

The real job runs at each point of a sweep, as in `planners`. Throughput is that of the slowest of logical workers,
without a network.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from benchmarks.scenarios.plans.planners import choose_figures, fill_home
from benchmarks.support.choice import DEFAULTS, Choice
from benchmarks.support.measured_worlds import figures_of
from benchmarks.support.sweeps import sstd, tornado
from benchmarks.support.sweeps.workloads import Trial, Workload
from pststream.base.progress import Progress, Steps
from pststream.pipeline.replan.compare_planners import compare
from pststream.settings import Settings
from pststream.state.home import Home

SIZES = {"small": (5_000, 5_000, 1), "full": (200_000, 200_000, 2)}
"""Subscriptions, objects, and times that the objects are matched under every plan."""

SWEEPS: dict[str, Callable[[], Iterator[Workload]]] = {
    "tornado": tornado.list_workloads,
    "sstd": sstd.list_workloads,
}
"""The workloads of each paper."""

FIGURES = ("throughput", "load_total", "max_seconds", "imbalance", "model_imbalance", "model_correlation", "copies",
           "subscriptions_stored", "dispatch_seconds", "dispatch_bytes", "seconds")  # fmt: skip


def run(scale: str, seed: int, settings: Settings, progress: Progress, choice: Choice = DEFAULTS) -> dict[str, Any]:
    """Measure each planner at each point of the sweeps; the workloads to choose from are SWEEPS."""
    subscriptions, objects, rounds = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects": objects}
    chosen = [(paper, workload) for paper in choice.workloads or SWEEPS for workload in SWEEPS[paper]()]
    steps = Steps(progress, sum(len(workload.trials) for _, workload in chosen), alike=True)
    for paper, workload in chosen:
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            count, source = round(subscriptions * workload.times), workload.objects_from
            home = fill_home(f"{folder}/home", count, objects, workload.style, seed, source, progress).home
            for point, trial in workload.trials.items():
                measured = _measure(home, trial, settings, rounds, progress)
                for planner, values in measured.items():
                    figures |= figures_of(f"{paper}_{point}_{planner}", values)
                best = max(measured, key=lambda planner: measured[planner]["throughput"])
                steps.end(f"{paper}, {point}: best {best}, {measured[best]['throughput']:,} tuples/s")
    return {"figures": figures, "floor": {}, "targets": {}}


def _measure(
    home: Home, trial: Trial, settings: Settings, rounds: int, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Return the figures of each planner of a trial; those with options are compared one by one."""
    groups = [(planner,) for planner in trial.planners] if trial.options else [trial.planners]
    measured = {}
    for planners in groups:
        chosen = replace(settings, workers=trial.workers, planner=planners[0], planner_options=trial.options)
        for plan in compare(home, chosen, planners, rounds=rounds, progress=progress)["plans"]:
            measured[plan["planner"]] = choose_figures(plan, FIGURES)
    return measured
