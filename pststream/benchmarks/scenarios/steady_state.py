"""Benchmark consecutive small micro-batches of objects, insertions and deletions in a warm session: seconds of each."""

import statistics
import tempfile
import time
from typing import Any

from pststream.benchmarks.support.homes import BenchHome
from pststream.benchmarks.support.targets import at_most
from pststream.generator.draw_subscriptions import SubscriptionStyle
from pststream.pipeline.batch.micro_batch import match
from pststream.progress import Progress
from pststream.settings import Settings
from pststream.state.index_files import index_files
from pststream.state.plans import current_version

SIZES = {"small": (50_000, 8), "full": (5_000_000, 50)}
OBJECTS, INSERTIONS, DELETIONS = 10_000, 1_000, 1_000


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the seconds per batch, and whether they stay flat; `match` compacts files when a worker has too many."""
    subscriptions, batches = SIZES[scale]
    style = SubscriptionStyle(frequent_share=0.12)
    seconds: list[float] = []
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = BenchHome(f"{folder}/home", seed, progress)
        bench.add_subscriptions(subscriptions, style)
        bench.add_objects(OBJECTS)
        match(bench.home, settings, progress=progress)
        for number in range(batches + 2):
            bench.add_subscriptions(INSERTIONS, style, DELETIONS)
            bench.add_objects(OBJECTS)
            began = time.perf_counter()
            match(bench.home, settings, one=True, progress=progress)
            seconds.append(time.perf_counter() - began)
            progress(f"batch {number + 1}: {seconds[-1]:.2f} s")
        files = len(index_files(bench.home, current_version(bench.home)))
    warm = seconds[2:]
    tenth = max(1, len(warm) // 5)
    figures = {
        "subscriptions": subscriptions,
        "batches": batches,
        "median_seconds": round(statistics.median(warm), 3),
        "p90_seconds": round(sorted(warm)[int(0.9 * (len(warm) - 1))], 3),
        "max_seconds": round(max(warm), 3),
        "last_over_first_fifth": round(statistics.median(warm[-tenth:]) / statistics.median(warm[:tenth]), 3),
        "index_files_at_end": files,
    }
    targets = {"median_seconds": at_most(figures["median_seconds"], 3.0)} if scale == "full" else {}
    return {"figures": figures, "floor": {}, "targets": targets}
