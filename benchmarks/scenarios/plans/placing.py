"""Benchmark what it costs to place the subscriptions of a batch, by the number that was placed before.

Under a plan of DkM-SKS each new subscription is placed by the area that overlaps it most (Equation 7), of all areas.
"""

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.support.measured_homes import BenchHome
from benchmarks.support.paper_workloads import describe_workload
from benchmarks.support.targets import at_most
from pststream.base.progress import Progress, Steps
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.calibrate.synthetic_homes import with_cache
from pststream.pipeline.planning.plan import plan
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import SubscriptionStyle

SIZES = {"small": (500, 5_000), "full": (10_000, 100_000, 1_000_000)}
"""Subscriptions placed before."""

OBJECTS, INSERTIONS, BATCHES = 1_000, 1_000, 3
PLANNERS = ("dkm_sks", "kd_tree")
"""The planner that places, and one under whose plan a subscription goes where its region is."""

STYLE = SubscriptionStyle("q1")


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the CPU seconds of a batch with insertions at each size; `growth` is the last over the first."""
    sizes = SIZES[scale]
    seconds: dict[str, dict[int, float]] = {planner: {} for planner in PLANNERS}
    steps = Steps(progress, len(sizes) * len(PLANNERS))
    for planner, at_size in seconds.items():
        for size in sizes:
            at_size[size] = _measure(size, seed, replace(settings, planner=planner))
            steps.end(f"{planner}, {size:,} subscriptions: {at_size[size]} CPU seconds a batch")
    placed, floor = (
        {f"cpu_seconds_at_{size}": value for size, value in seconds[planner].items()} for planner in PLANNERS
    )
    growth = round(seconds["dkm_sks"][sizes[-1]] / seconds["dkm_sks"][sizes[0]], 3)
    requests = f"{INSERTIONS:,} insertions with {OBJECTS:,} objects"
    figures = {"workload": describe_workload(STYLE, requests), **placed, "growth": growth}
    return {"figures": figures, "floor": floor, "targets": {"growth": at_most(growth, 1.2)} if scale == "full" else {}}


def _measure(size: int, seed: int, settings: Settings) -> float:
    """Return the CPU seconds of a batch with insertions, the median of BATCHES, after `size` subscriptions."""
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as scratch:
        chosen = with_cache(Path(scratch, "cache"), settings)
        bench = BenchHome(f"{scratch}/home", seed, lambda _: None)
        bench.add_subscriptions(size, STYLE)
        bench.add_objects(OBJECTS)
        plan(bench.home, chosen)
        match(bench.home, chosen)
        cpu = []
        for _ in range(BATCHES):
            bench.add_subscriptions(INSERTIONS, STYLE)
            bench.add_objects(OBJECTS)
            began = time.process_time()
            match(bench.home, chosen, one=True)
            cpu.append(time.process_time() - began)
        return round(statistics.median(cpu), 3)
