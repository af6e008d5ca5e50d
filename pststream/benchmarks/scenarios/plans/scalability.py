"""Benchmark throughput by the number of workers, under plans of three planners (PS2Stream, figure 11)."""

import tempfile
from dataclasses import replace
from typing import Any

import numpy as np

from pststream.benchmarks.scenarios.plans.planners import ROUNDS, SIZES, WORKLOADS, add_requests
from pststream.benchmarks.support.homes import BenchHome
from pststream.benchmarks.support.paper_workloads import FIVE_A_REQUEST, describe_workload
from pststream.benchmarks.support.steps import Steps
from pststream.pipeline.comparing.compare_planners import compare
from pststream.progress import Progress
from pststream.settings import Settings

WORKLOAD = "q3"
NUMBERS = (4, 8, 16, 32)
PLANNERS = ("hybrid", "kd_tree", "metric")


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure tuples/s of all workers together, by planner and workers.

    Also the greatest time of a worker over the mean, as measured and as the model predicted it.
    """
    subscriptions, objects = SIZES[scale]
    style = WORKLOADS[WORKLOAD]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects": objects}
    figures["workload"] = describe_workload(style, FIVE_A_REQUEST)
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = BenchHome(f"{folder}/home", seed, progress)
        bench.add_subscriptions(subscriptions, style)
        bench.add_objects(objects)
        add_requests(bench, objects, style)
        steps = Steps(progress, len(NUMBERS))
        for workers in NUMBERS:
            chosen = replace(settings, workers=workers)
            for plan in compare(bench.home, chosen, PLANNERS, rounds=ROUNDS[scale], progress=progress)["plans"]:
                name = f"{plan['planner']}_{workers}_workers"
                figures[f"{name}_throughput"] = plan["throughput"]
                for loads, prefix in (("worker_seconds", ""), ("model_seconds", "model_")):
                    seconds = np.array(plan[loads])
                    figures[f"{name}_{prefix}max_over_mean"] = round(float(seconds.max() / seconds.mean()), 3)
            steps.end(f"{workers} workers: hybrid {figures[f'hybrid_{workers}_workers_throughput']:,} objects/s")
    return {"figures": figures, "floor": {}, "targets": {}}
