"""Benchmark planners that divide space, and `auto`, with the paper's number of subscriptions and twice as many.

The planners that divide by text are only in the benchmark `planners`, where they are several times slower.
"""

from typing import Any

from benchmarks.scenarios.plans.planners import ROUNDS, WORKERS, WORKLOADS, Case, make_targets, measure_cases
from benchmarks.support.choice import DEFAULTS, Choice
from pststream.base.progress import Progress
from pststream.settings import Settings

SIZES = {"small": ((50_000,), 50_000), "full": ((5_000_000, 10_000_000), 1_000_000)}
"""Numbers of subscriptions, and objects."""

PLANNERS = ("hybrid", "kd_tree", "r_tree", "auto")
WANTED = {"q1": 0.98, "q2": 0.98, "q3": 1.3}


def run(scale: str, seed: int, settings: Settings, progress: Progress, choice: Choice = DEFAULTS) -> dict[str, Any]:
    """Measure each planner on each workload, and the throughput of hybrid and auto over the best others."""
    objects, listed = SIZES[scale][1], list_workloads(scale)
    chosen = {name: listed[name] for name in choice.workloads or listed}
    cases = {name: Case(WORKLOADS[kind], subscriptions, objects) for name, (kind, subscriptions) in chosen.items()}
    measured = measure_cases(cases, PLANNERS, ROUNDS[scale], seed, settings, progress, choice.objects)
    figures = {"objects": objects, "workers": WORKERS} | measured
    targets = make_targets(figures, {name: WANTED[kind] for name, (kind, _) in chosen.items()})
    return {"figures": figures, "floor": {}, "targets": targets if scale == "full" else {}}


def list_workloads(scale: str) -> dict[str, tuple[str, int]]:
    """Return kind and subscriptions of each workload, by name (`q1_5m`: 5,000,000)."""
    return {f"{kind}_{size / 1e6:g}m": (kind, size) for size in SIZES[scale][0] for kind in WANTED}
