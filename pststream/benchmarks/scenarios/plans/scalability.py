"""Benchmark throughput by the number of workers, under plans of hybrid and of the kd-tree (PS2Stream, figure 11)."""

import tempfile
from dataclasses import replace
from typing import Any

import numpy as np

from pststream.benchmarks.scenarios.plans.planners import ROUNDS, SIZES, WORKLOADS
from pststream.benchmarks.support.homes import BenchHome
from pststream.benchmarks.support.steps import Steps
from pststream.pipeline.comparing.compare_planners import compare
from pststream.progress import Progress
from pststream.settings import Settings

WORKLOAD = "q3"
NUMBERS = (4, 8, 16, 32)
PLANNERS = ("hybrid", "kd_tree")


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure objects/s of all workers together, and the greatest worker time over the mean, by planner and workers."""
    subscriptions, objects = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects": objects, "workload": WORKLOAD}
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = BenchHome(f"{folder}/home", seed, progress)
        bench.add_subscriptions(subscriptions, WORKLOADS[WORKLOAD])
        bench.add_objects(objects)
        steps = Steps(progress, len(NUMBERS))
        for workers in NUMBERS:
            chosen = replace(settings, workers=workers)
            for plan in compare(bench.home, chosen, PLANNERS, rounds=ROUNDS[scale], progress=progress)["plans"]:
                name = f"{plan['planner']}_{workers}_workers"
                figures[f"{name}_throughput"] = plan["throughput"]
                seconds = np.array(plan["worker_seconds"])
                figures[f"{name}_max_over_mean"] = round(float(seconds.max() / seconds.mean()), 3)
            steps.end(f"{workers} workers: hybrid {figures[f'hybrid_{workers}_workers_throughput']:,} objects/s")
    return {"figures": figures, "floor": {}, "targets": {}}
