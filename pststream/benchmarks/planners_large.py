"""The planners that divide space on workloads like Q1, Q2 and Q3 with as many subscriptions as the paper's larger ones.

The planners that divide by text are left to the benchmark `planners`, where they are several times slower.
"""

import tempfile
from typing import Any

from pststream.benchmarks.homes import BenchHome
from pststream.benchmarks.planners import ROUNDS, WORKERS, WORKLOADS, Progress, measured
from pststream.benchmarks.targets import at_least
from pststream.settings import Settings

SIZES = {"small": (50_000, 50_000), "full": (5_000_000, 1_000_000)}
PLANNERS = ("hybrid", "kd_tree", "r_tree")
WANTED = {"q1": 0.98, "q2": 0.98, "q3": 1.3}


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Figures of each planner on each workload, and hybrid's throughput over the best of the others."""
    subscriptions, objects = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects": objects, "workers": WORKERS}
    targets = {}
    for name, wanted in WANTED.items():
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            bench = BenchHome(f"{folder}/home", seed, progress)
            bench.add_subscriptions(subscriptions, WORKLOADS[name])
            bench.add_objects(objects)
            progress(f"workload {name}")
            figures |= measured(name, bench, settings, PLANNERS, ROUNDS[scale], progress)
        if scale == "full":
            ratio = f"{name}_hybrid_over_best"
            targets[ratio] = at_least(figures[ratio], wanted)
    return {"figures": figures, "floor": {}, "targets": targets}
