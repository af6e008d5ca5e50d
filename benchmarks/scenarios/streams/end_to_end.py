"""Benchmark whole micro-batches (Delta in, route, one shuffle, match, Delta out) against jobs that do not match.

The batch and its baseline jobs (`support/baseline_jobs.py`) run in this process, in turn and on the same objects.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from benchmarks.support.baseline_jobs import find_no_pairs, record_pairs, replay_pairs, run_spark_baseline, write_sample
from benchmarks.support.measured_homes import BenchHome
from benchmarks.support.memory import MemoryWatch
from benchmarks.support.paper_workloads import OBJECTS_ALONE, describe_workload
from benchmarks.support.targets import at_least, at_most
from pststream.base.progress import Progress, Steps
from pststream.pipeline.batch.micro_batch import match
from pststream.settings import Settings
from pststream.state.index_files import index_files
from pststream.state.plans import current_version
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.synthetic_arrays import synthetic_objects

SIZES = {"small": (100_000, 50_000), "full": (5_000_000, 1_000_000)}
RUNS = 3
STYLES = {"few": SubscriptionStyle(frequent_share=0.06), "many": SubscriptionStyle(frequent_share=0.45)}
"""The paper's Q1 with fewer frequent keywords, for about 10 and about 100 matches per object at full size."""

GRID_TUPLES_PER_SECOND = 160_659
"""What PS2Stream reports of its grid baseline on Q1 with 8 workers (section VI-B)."""

MOST_OVER_FLOOR = {"few": 1.3, "many": 1.5}
"""Targets for the time of a batch over that of the baseline job."""


class Cost(NamedTuple):
    """What a job took: seconds, and seconds of CPU of this process, which Spark's are not part of."""

    seconds: float
    cpu_seconds: float


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure objects/s of warm batches, and their time over the time of baseline jobs, for few and many matches."""
    figures: dict[str, Any] = {}
    floor: dict[str, float] = {}
    targets: dict[str, Any] = {}
    with MemoryWatch() as watch:
        steps = Steps(progress, RUNS * len(STYLES))
        results = {name: _measure(name, scale, seed, settings, steps, progress) for name in STYLES}
    for name, (measured, floors) in results.items():
        figures[f"{name}_workload"] = describe_workload(STYLES[name], OBJECTS_ALONE)
        figures.update({f"{name}_{k}": v for k, v in measured.items()})
        floor.update({f"{name}_{k}": v for k, v in floors.items()})
        if scale == "full":
            targets[f"{name}_objects_per_second"] = at_least(measured["objects_per_second"], GRID_TUPLES_PER_SECOND)
            targets[f"{name}_over_floor"] = at_most(measured["over_floor"], MOST_OVER_FLOOR[name])
            targets[f"{name}_over_spark_floor"] = at_most(measured["over_spark_floor"], 1.3)
    figures.update(watch.peaks)
    if scale == "full":
        targets["jvm_peak_mb"] = at_most(figures["jvm_peak_mb"], 4096)
        targets["python_worker_peak_mb"] = at_most(figures["python_worker_peak_mb"], 3072)
    return {"figures": figures, "floor": floor, "targets": targets}


def _measure(
    name: str, scale: str, seed: int, settings: Settings, steps: Steps, progress: Progress
) -> tuple[dict[str, float], dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = BenchHome(f"{folder}/home", seed, progress)
        subscriptions, objects = SIZES[scale]
        bench.add_subscriptions(subscriptions, STYLES[name])
        bench.add_objects(min(objects, 100_000))
        settings = replace(settings, engine="local")
        first = _time(lambda: match(bench.home, settings, progress=progress))
        costs, matches = _measure_jobs(name, bench, objects, settings, folder, steps, progress)
        files = index_files(bench.home, current_version(bench.home))
    batch, baseline, without_matches, by_spark = map(_median, costs)
    return {
        "subscriptions": subscriptions,
        "objects": objects,
        "matches_per_object": round(matches / objects, 2),
        "first_batch_seconds": round(first.seconds, 2),
        "seconds": round(batch.seconds, 2),
        "cpu_seconds": round(batch.cpu_seconds, 2),
        "objects_per_second": round(objects / batch.seconds),
        "over_floor": round(batch.seconds / baseline.seconds, 3),
        "cpu_over_floor": round(batch.cpu_seconds / baseline.cpu_seconds, 3),
        "over_spark_floor": round(batch.seconds / by_spark.seconds, 3),
        "index_bytes_per_subscription": round(sum(file.bytes for file in files) / subscriptions, 1),
    }, {
        "seconds": round(baseline.seconds, 2),
        "cpu_seconds": round(baseline.cpu_seconds, 2),
        "seconds_without_matches": round(without_matches.seconds, 2),
        "cpu_seconds_without_matches": round(without_matches.cpu_seconds, 2),
        "seconds_of_spark": round(by_spark.seconds, 2),
    }


def _measure_jobs(
    name: str, bench: BenchHome, objects: int, settings: Settings, folder: str, steps: Steps, progress: Progress
) -> tuple[list[list[Cost]], int]:
    """Run the batch and the baseline jobs RUNS times in turn, all on the same objects, which are added again for each.

    Returns the costs of the batch, the baseline job, the one without matches and Spark's; and the matches of a batch.
    """
    drawn = [synthetic_objects(objects, bench.seed * 1000)]  # one data file, so that tasks read in the same order

    def run_batch() -> int:
        return int(match(bench.home, settings, progress=progress)["matches"])

    bench.add_drawn_objects(drawn)
    with record_pairs() as recorded:
        matches = run_batch()
    write_sample(recorded, f"{folder}/sample")
    costs: list[list[Cost]] = [[], [], [], []]
    for ordinal in range(RUNS):
        searches: list[AbstractContextManager[None]] = [nullcontext(), replay_pairs(recorded), find_no_pairs()]
        for place, search in enumerate(searches):
            after, to = bench.add_drawn_objects(drawn)
            with search:
                costs[place].append(_time(run_batch))
        job = partial(run_spark_baseline, bench.home, settings, after, to, f"{folder}/sample", f"{folder}/out{ordinal}")
        costs[3].append(_time(job))
        seconds = [f"{of[-1].seconds:.2f} s ({of[-1].cpu_seconds:.2f} s of CPU)" for of in costs[:3]]
        steps.end(
            f"{name} matches, run {ordinal + 1}: {seconds[0]}, baseline {seconds[1]}, without matches {seconds[2]},"
            f" by Spark's Delta reader and writer {costs[3][-1].seconds:.1f} s"
        )
    return costs, matches


def _time(job: Callable[[], object]) -> Cost:
    began, before = time.perf_counter(), os.times()
    job()
    after = os.times()
    return Cost(time.perf_counter() - began, after.user + after.system - before.user - before.system)


def _median(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(values) for values in zip(*costs)))
