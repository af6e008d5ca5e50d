"""All planners on workloads like the paper's Q1, Q2 and Q3, measured by the real job
(pipeline/comparing/compare_planners.py).
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pststream import names
from pststream.benchmarks.support.homes import BenchHome
from pststream.benchmarks.support.targets import at_least
from pststream.generator.paper_subscriptions import QueryStyle
from pststream.pipeline.comparing.compare_planners import compare
from pststream.pipeline.comparing.planner_trial import correlation
from pststream.progress import Progress
from pststream.settings import Settings

SIZES = {"small": (50_000, 50_000), "full": (1_000_000, 500_000)}
OBJECTS_A_REQUEST = 5
ROUNDS = {"small": 1, "full": 4}
"""Times that the objects are matched again under every plan."""
WORKERS = 8
WORKLOADS = {
    "q1": QueryStyle("q1", frequent_share=0.3),
    "q2": QueryStyle("q2", frequent_share=0.3),
    "q3": QueryStyle("q3", frequent_share=0.3),
    "q3_and": QueryStyle("q3", connective="and"),
}
"""`_and`: all keywords joined by AND, so that a subscription is posted under its rarest one alone."""

TOLD = ("throughput", "load_total", "max_seconds", "imbalance", "copies", "subscriptions_stored", "dispatch_seconds",
        "dispatch_bytes", "seconds", "model_correlation")  # fmt: skip


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Figures of each planner on each workload, and hybrid's throughput over the best of the others."""
    subscriptions, objects = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects": objects, "workers": WORKERS}
    targets = {}
    for name, style in WORKLOADS.items():
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            bench = BenchHome(f"{folder}/home", seed, progress)
            bench.add_subscriptions(subscriptions, style)
            bench.add_objects(objects)
            changed = objects // OBJECTS_A_REQUEST // 2
            bench.add_subscriptions(changed, style, delete=changed)
            progress(f"workload {name}")
            figures |= measured(name, bench, settings, tuple(names.PLANNERS), ROUNDS[scale], progress)
        if scale == "full":
            wanted = 1.3 if name.startswith("q3") else 0.98
            targets[f"{name}_hybrid_over_best"] = at_least(figures[f"{name}_hybrid_over_best"], wanted)
            targets[f"{name}_model_correlation"] = at_least(figures[f"{name}_model_correlation"] or 0.0, 0.95)
    return {"figures": figures, "floor": {}, "targets": targets}


def measured(
    name: str, bench: BenchHome, settings: Settings, planners: Sequence[str], rounds: int, progress: Progress
) -> dict[str, Any]:
    """Figures of each of the planners on a workload, and hybrid's throughput over the best of the others.

    `model_correlation` and `model_over_measured` of the workload are over the workers of all plans: the loads that the
    model told from a sample when it planned, and CPU seconds.
    """
    chosen = replace(settings, workers=WORKERS)
    document = compare(bench.home, chosen, planners, rounds=rounds, progress=progress)
    figures: dict[str, Any] = {f"{name}_matches_per_object": round(document["matches"] / document["objects"], 2)}
    for found in document["plans"]:
        figures |= {f"{name}_{found['planner']}_{figure}": found[figure] for figure in TOLD}
    predicted, seconds = (
        np.concatenate([f[told] for f in document["plans"]]) for told in ("model_seconds", "worker_seconds")
    )
    figures[f"{name}_model_correlation"] = correlation(predicted, seconds)
    figures[f"{name}_model_over_measured"] = round(float(predicted.sum() / seconds.sum()), 4)
    ours = figures[f"{name}_hybrid_throughput"]
    best = max(f["throughput"] for f in document["plans"] if f["planner"] != "hybrid")
    return figures | {f"{name}_hybrid_over_best": round(ours / best, 3)}
