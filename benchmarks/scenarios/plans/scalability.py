"""Benchmark throughput by the number of workers, under plans of three planners (PS2Stream, figure 11)."""

import tempfile
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.scenarios.plans.planners import fill_home
from benchmarks.support.choice import DEFAULTS, Choice
from benchmarks.support.paper_workloads import FIVE_A_REQUEST, describe_workload
from pststream.base.progress import Progress, Steps
from pststream.pipeline.replan.compare_planners import compare
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import SubscriptionStyle

SIZES = {"small": (20_000, 20_000, 1), "full": (500_000, 300_000, 3)}
"""Subscriptions, objects, and times that the objects are matched under every plan."""

WORKLOADS = {kind: SubscriptionStyle(kind) for kind in ("q1", "q3")}
NUMBERS = (4, 8, 16, 32)
PLANNERS = ("hybrid", "kd_tree", "metric")


def run(scale: str, seed: int, settings: Settings, progress: Progress, choice: Choice = DEFAULTS) -> dict[str, Any]:
    """Measure tuples/s of all workers together, by workload, planner and workers.

    Also the greatest time of a worker over the mean, as measured and as the model predicted it.
    """
    subscriptions, objects, rounds = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects": objects}
    wanted = choice.workloads or tuple(WORKLOADS)
    steps = Steps(progress, len(wanted) * len(NUMBERS))
    for workload in wanted:
        style = WORKLOADS[workload]
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            bench = fill_home(f"{folder}/home", subscriptions, objects, style, seed, choice.objects, progress)
            figures[f"{workload}_workload"] = describe_workload(style, FIVE_A_REQUEST, bench.objects.description)
            for workers in NUMBERS:
                chosen = replace(settings, workers=workers)
                for plan in compare(bench.home, chosen, PLANNERS, rounds=rounds, progress=progress)["plans"]:
                    name = f"{workload}_{plan['planner']}_{workers}_workers"
                    figures |= {f"{name}_{figure}": value for figure, value in _figures(plan).items()}
                ours = figures[f"{workload}_hybrid_{workers}_workers_throughput"]
                steps.end(f"{workload}, {workers} workers: hybrid {ours:,} objects/s")
    return {"figures": figures, "floor": {}, "targets": {}}


def _figures(plan: dict[str, Any]) -> dict[str, float]:
    """Return the figures of a plan."""
    figures = {"throughput": plan["throughput"]}
    for loads, prefix in (("worker_seconds", ""), ("model_seconds", "model_")):
        seconds = np.array(plan[loads])
        figures[f"{prefix}max_over_mean"] = round(float(seconds.max() / seconds.mean()), 3)
    return figures
