"""Benchmark throughput under planners that divide space, with the paper's number of subscriptions and twice as many.

The planners that divide by text are only in the benchmark `planners`, where they are several times slower.
"""

import tempfile
from collections.abc import Sequence
from typing import Any

from pststream.benchmarks.scenarios.plans.planners import ROUNDS, WORKERS, WORKLOADS, fill_home, measured
from pststream.benchmarks.support.object_sources import ObjectSource
from pststream.benchmarks.support.paper_workloads import FIVE_A_REQUEST, describe_workload
from pststream.benchmarks.support.steps import Steps
from pststream.benchmarks.support.targets import at_least
from pststream.progress import Progress
from pststream.settings import Settings

SIZES = {"small": ((50_000,), 50_000), "full": ((5_000_000, 10_000_000), 1_000_000)}
"""Numbers of subscriptions, and objects."""

PLANNERS = ("hybrid", "kd_tree", "r_tree")
WANTED = {"q1": 0.98, "q2": 0.98, "q3": 1.3}


def run(
    scale: str,
    seed: int,
    settings: Settings,
    progress: Progress,
    *,
    workloads: Sequence[str] = (),
    objects_from: ObjectSource | None = None,
) -> dict[str, Any]:
    """Measure each planner on each workload, and hybrid's throughput over the best other.

    workloads  names of `list_workloads`; empty: all
    """
    objects, cases = SIZES[scale][1], list_workloads(scale)
    chosen = workloads or tuple(cases)
    figures: dict[str, Any] = {"objects": objects, "workers": WORKERS}
    targets = {}
    steps = Steps(progress, len(chosen))
    for name in chosen:
        kind, subscriptions = cases[name]
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            bench = fill_home(f"{folder}/home", subscriptions, objects, WORKLOADS[kind], seed, objects_from, progress)
            figures[f"{name}_workload"] = describe_workload(WORKLOADS[kind], FIVE_A_REQUEST, bench.objects.description)
            figures |= measured(name, bench, settings, PLANNERS, ROUNDS[scale], progress)
        ratio = f"{name}_hybrid_over_best"
        steps.end(f"workload {name}: hybrid over the best other {figures[ratio]}")
        if scale == "full":
            targets[ratio] = at_least(figures[ratio], WANTED[kind])
    return {"figures": figures, "floor": {}, "targets": targets}


def list_workloads(scale: str) -> dict[str, tuple[str, int]]:
    """Return kind and subscriptions of each workload, by name (`q1_5m`: 5,000,000)."""
    return {f"{kind}_{size / 1e6:g}m": (kind, size) for size in SIZES[scale][0] for kind in WANTED}
