"""Benchmark whole micro-batches (Delta in, route, one shuffle, match, Delta out) against jobs that do not match."""

import statistics
import tempfile
import time
from typing import Any

from pststream.benchmarks.support.baseline_jobs import run_baseline, run_spark_baseline
from pststream.benchmarks.support.homes import BenchHome
from pststream.benchmarks.support.memory import MemoryWatch
from pststream.benchmarks.support.steps import Steps
from pststream.benchmarks.support.targets import at_least, at_most
from pststream.generator.draw_subscriptions import SubscriptionStyle
from pststream.pipeline.batch.micro_batch import match
from pststream.progress import Progress
from pststream.settings import Settings
from pststream.state.index_files import index_files
from pststream.state.plans import current_version

SIZES = {"small": (100_000, 50_000), "full": (5_000_000, 1_000_000)}
RUNS = 3
STYLES = {"few": SubscriptionStyle(frequent_share=0.06), "many": SubscriptionStyle(frequent_share=0.45)}
"""The paper's Q1 with fewer frequent keywords, for about 10 and about 100 matches per object at full size."""

MOST_OVER_FLOOR = {"few": 1.3, "many": 1.5}
"""Targets for the time of a batch over that of the baseline job."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure objects/s of warm batches, and their time over the time of baseline jobs, for few and many matches."""
    figures: dict[str, float] = {}
    floor: dict[str, float] = {}
    targets: dict[str, Any] = {}
    with MemoryWatch() as watch:
        steps = Steps(progress, RUNS * len(STYLES))
        results = {name: _measure(name, scale, seed, settings, steps, progress) for name in STYLES}
    for name, (measured, floors) in results.items():
        figures.update({f"{name}_{k}": v for k, v in measured.items()})
        floor.update({f"{name}_{k}": v for k, v in floors.items()})
        if scale == "full":
            targets[f"{name}_over_floor"] = at_most(measured["over_floor"], MOST_OVER_FLOOR[name])
            targets[f"{name}_over_spark_floor"] = at_most(measured["over_spark_floor"], 1.3)
    figures.update(watch.peaks)
    if scale == "full":
        targets["few_objects_per_second"] = at_least(figures["few_objects_per_second"], 160_659)
        targets["jvm_peak_mb"] = at_most(figures["jvm_peak_mb"], 4096)
        targets["python_worker_peak_mb"] = at_most(figures["python_worker_peak_mb"], 3072)
    return {"figures": figures, "floor": floor, "targets": targets}


def _measure(
    name: str, scale: str, seed: int, settings: Settings, steps: Steps, progress: Progress
) -> tuple[dict[str, float], dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        return _measure_in(folder, name, scale, seed, settings, steps, progress)


def _measure_in(
    folder: str, name: str, scale: str, seed: int, settings: Settings, steps: Steps, progress: Progress
) -> tuple[dict[str, float], dict[str, float]]:
    subscriptions, objects = SIZES[scale]
    bench = BenchHome(f"{folder}/home", seed, progress)
    bench.add_subscriptions(subscriptions, STYLES[name])
    bench.add_objects(min(objects, 100_000))
    began = time.perf_counter()
    match(bench.home, settings, progress=progress)
    first = time.perf_counter() - began
    times: list[float] = []
    baseline: list[float] = []
    without_matches: list[float] = []
    by_spark: list[float] = []
    matches = 0
    for number in range(RUNS):
        after, to = bench.add_objects(objects)
        began = time.perf_counter()
        done = match(bench.home, settings, progress=progress)
        times.append(time.perf_counter() - began)
        matches = done["matches"]
        pairs = round(matches / objects)
        jobs = (
            (run_baseline, pairs, baseline),
            (run_baseline, 0, without_matches),
            (run_spark_baseline, pairs, by_spark),
        )
        for place, (job, count, durations) in enumerate(jobs):
            began = time.perf_counter()
            job(bench.home, settings, after, to, count, f"{folder}/floor{number}-{place}")
            durations.append(time.perf_counter() - began)
        steps.end(
            f"{name} matches, run {number + 1}: {times[-1]:.1f} s, baseline {baseline[-1]:.1f} s,"
            f" without matches {without_matches[-1]:.1f} s, by Spark's Delta reader and writer {by_spark[-1]:.1f} s"
        )
    seconds, base = statistics.median(times), statistics.median(baseline)
    files = index_files(bench.home, current_version(bench.home))
    return {
        "subscriptions": subscriptions,
        "objects": objects,
        "matches_per_object": round(matches / objects, 2),
        "first_batch_seconds": round(first, 2),
        "seconds": round(seconds, 2),
        "objects_per_second": round(objects / seconds),
        "over_floor": round(seconds / base, 3),
        "over_spark_floor": round(seconds / statistics.median(by_spark), 3),
        "index_bytes_per_subscription": round(sum(file.bytes for file in files) / subscriptions, 1),
    }, {
        "seconds": round(base, 2),
        "seconds_without_matches": round(statistics.median(without_matches), 2),
        "seconds_of_spark": round(statistics.median(by_spark), 2),
    }
