"""All planners on workloads like the paper's Q1, Q2 and Q3, measured by the real job (pipeline/compare.py)."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pststream import names
from pststream.benchmarks.homes import BenchHome
from pststream.benchmarks.targets import at_least
from pststream.pipeline.compare import compare
from pststream.settings import Settings
from pststream.workload.queries import QueryStyle

SIZES = {"small": (50_000, 50_000), "full": (1_000_000, 500_000)}
WORKERS = 8
WORKLOADS = {
    "q1": QueryStyle("q1", frequent_share=0.3),
    "q2": QueryStyle("q2", frequent_share=0.3),
    "q2_and": QueryStyle("q2", connective="and"),
    "q3": QueryStyle("q3", frequent_share=0.3),
    "q3_and": QueryStyle("q3", connective="and"),
}
"""`_and`: all keywords joined by AND, so that a subscription is posted under its rarest one alone."""

TOLD = ("throughput", "total_seconds", "max_seconds", "imbalance", "objects_sent", "pieces_stored", "dispatch_seconds",
        "dispatch_bytes", "plan_seconds", "model_correlation")  # fmt: skip


def run(scale: str, seed: int, settings: Settings, progress: Callable[[str], None]) -> dict[str, Any]:
    """Figures of each planner on each workload, and hybrid's throughput over the best of the others."""
    subscriptions, objects = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects": objects, "workers": WORKERS}
    targets = {}
    for name, style in WORKLOADS.items():
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            bench = BenchHome(f"{folder}/home", seed, progress)
            bench.add_subscriptions(subscriptions, style)
            bench.add_objects(objects)
            progress(f"workload {name}")
            document = compare(bench.home, replace(settings, workers=WORKERS), names.PLANNERS, progress=progress)
        figures[f"{name}_matches_per_object"] = round(document["matches"] / document["objects"], 2)
        for found in document["planners"]:
            figures |= {f"{name}_{found['planner']}_{figure}": found[figure] for figure in TOLD}
        ours = figures[f"{name}_hybrid_throughput"]
        best = max(f["throughput"] for f in document["planners"] if f["planner"] != "hybrid")
        figures[f"{name}_hybrid_over_best"] = round(ours / best, 3)
        if scale == "full":
            wanted = 1.3 if name.startswith("q3") else 0.98
            targets[f"{name}_hybrid_over_best"] = at_least(figures[f"{name}_hybrid_over_best"], wanted)
    return {"figures": figures, "floor": {}, "targets": targets}
