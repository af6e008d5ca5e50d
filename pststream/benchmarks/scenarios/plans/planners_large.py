"""Benchmark throughput under planners that divide space, with the paper's number of subscriptions and twice as many.

The planners that divide by text are only in the benchmark `planners`, where they are several times slower.
"""

import tempfile
from typing import Any

from pststream.benchmarks.scenarios.plans.planners import ROUNDS, WORKERS, WORKLOADS, add_requests, measured
from pststream.benchmarks.support.homes import BenchHome
from pststream.benchmarks.support.paper_workloads import FIVE_A_REQUEST, describe_workload
from pststream.benchmarks.support.steps import Steps
from pststream.benchmarks.support.targets import at_least
from pststream.progress import Progress
from pststream.settings import Settings

SIZES = {"small": ((50_000,), 50_000), "full": ((5_000_000, 10_000_000), 1_000_000)}
"""Numbers of subscriptions, and objects."""

PLANNERS = ("hybrid", "kd_tree", "r_tree")
WANTED = {"q1": 0.98, "q2": 0.98, "q3": 1.3}


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure each planner on each workload (`q1_5m`: 5,000,000), and hybrid's throughput over the best other."""
    sizes, objects = SIZES[scale]
    figures: dict[str, Any] = {"objects": objects, "workers": WORKERS}
    targets = {}
    steps = Steps(progress, len(sizes) * len(WANTED))
    for subscriptions in sizes:
        for kind, wanted in WANTED.items():
            name = f"{kind}_{subscriptions / 1e6:g}m"
            with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
                bench = BenchHome(f"{folder}/home", seed, progress)
                bench.add_subscriptions(subscriptions, WORKLOADS[kind])
                bench.add_objects(objects)
                add_requests(bench, objects, WORKLOADS[kind])
                figures[f"{name}_workload"] = describe_workload(WORKLOADS[kind], FIVE_A_REQUEST)
                figures |= measured(name, bench, settings, PLANNERS, ROUNDS[scale], progress)
            steps.end(f"workload {name}: hybrid over the best other {figures[f'{name}_hybrid_over_best']}")
            if scale == "full":
                ratio = f"{name}_hybrid_over_best"
                targets[ratio] = at_least(figures[ratio], wanted)
    return {"figures": figures, "floor": {}, "targets": targets}
