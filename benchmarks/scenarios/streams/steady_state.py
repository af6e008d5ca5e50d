"""Benchmark consecutive small micro-batches of objects, insertions and deletions under each engine: seconds of each."""

import statistics
import tempfile
import time
from dataclasses import replace
from typing import Any

from benchmarks.support.engines import ENGINES, side_by_side
from benchmarks.support.measured_homes import BenchHome
from benchmarks.support.paper_workloads import FIVE_A_REQUEST, describe_workload
from benchmarks.support.targets import at_most
from pststream.base.progress import Progress, Steps
from pststream.pipeline.batch.micro_batch import match
from pststream.settings import Settings
from pststream.state.index_files import index_files
from pststream.state.plans import current_version
from pststream.workloads.draw_subscriptions import SubscriptionStyle

SIZES = {"small": (50_000, 8), "full": (5_000_000, 50)}
OBJECTS, INSERTIONS, DELETIONS = 10_000, 1_000, 1_000


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the seconds per batch, and whether they stay flat; `match` compacts files when a worker has too many.

    The engines take turns batch by batch in one process: they match the same index, and Spark is warm.
    """
    subscriptions, batches = SIZES[scale]
    style = SubscriptionStyle(frequent_share=0.12)
    seconds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = BenchHome(f"{folder}/home", seed, progress)
        bench.add_subscriptions(subscriptions, style)
        bench.add_objects(OBJECTS)
        match(bench.home, settings, progress=progress)
        turns = (batches + 2) * ENGINES
        steps = Steps(progress, len(turns), alike=True)
        for engine in turns:
            bench.add_subscriptions(INSERTIONS, style, DELETIONS)
            bench.add_objects(OBJECTS)
            began = time.perf_counter()
            match(bench.home, replace(settings, engine=engine), one=True)
            seconds[engine].append(time.perf_counter() - began)
            steps.end(f"batch on {engine}: {seconds[engine][-1]:.2f} s")
        files = len(index_files(bench.home, current_version(bench.home)))
    figures = {
        "subscriptions": subscriptions,
        "workload": describe_workload(style, FIVE_A_REQUEST),
        "batches": batches,
        **side_by_side({engine: _figures(of_engine[2:]) for engine, of_engine in seconds.items()}),
        "index_files_at_end": files,
    }
    targets = {"median_seconds": at_most(figures["median_seconds"], 1.0)} if scale == "full" else {}
    return {"figures": figures, "floor": {}, "targets": targets}


def _figures(seconds: list[float]) -> dict[str, float]:
    fifth = max(1, len(seconds) // 5)
    return {
        "median_seconds": round(statistics.median(seconds), 3),
        "p90_seconds": round(sorted(seconds)[int(0.9 * (len(seconds) - 1))], 3),
        "max_seconds": round(max(seconds), 3),
        "last_over_first_fifth": round(statistics.median(seconds[-fifth:]) / statistics.median(seconds[:fifth]), 3),
    }
