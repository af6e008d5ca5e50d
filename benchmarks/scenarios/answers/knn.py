"""Benchmark standing `knn` queries: micro-batches of DkM-SKS's evaluation, by subscriptions, k, workers and stream.

The workload is that of DkM-SKS, section 5 (support/measured_homes.py). All stored objects count for all
subscriptions: requests are inserted late, and live since before the first object, which has the same answers as the
other order. A time-stamp is a micro-batch as `match` runs it, from Delta to Delta, in a warm process on the local
engine. Milliseconds of the kernel and the fold are CPU time of all threads, so other work on the machine changes them
little.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.support.answers import answer_batches
from benchmarks.support.answers.answer_batches import measure_bucket
from benchmarks.support.measured_homes import STREAMS, MeasuredBatch, StandingHome, middle, step_cpu
from benchmarks.support.measured_worlds import figures_of
from benchmarks.support.memory import MemoryWatch
from benchmarks.support.targets import at_most
from pststream.base.progress import Progress, Steps
from pststream.pipeline.calibrate.synthetic_homes import QueryWords, draw_knn
from pststream.settings import Settings
from pststream.workloads.synthetic_arrays import SyntheticObjects

SIZES = {"small": (1_000, 2_000), "full": (1_000_000, 2_000_000, 5_000_000, 10_000_000)}
"""Subscriptions of the growing home; all figures without a size are those of the last."""

STORED = {"small": 2_000, "full": 1_000_000}
"""Objects before the first batch."""

VARIED = {"small": (500, 1_000), "full": (20_000, 100_000)}
"""Subscriptions and stored objects of the homes in which k, workers and streams differ."""

CONTINUOUS = {"small": (500, 1_000), "full": (200_000, 200_000)}
"""Subscriptions and stored objects of SSTD's continuous nearest objects (CKQ)."""

SOURCE = {"small": 2_000, "full": 200_000}
"""Objects from which queries are drawn; they are not among those of the home."""

BATCHES = {"small": 2, "full": 3}
"""Measured time-stamps; two before them are not counted, as the first one indexes the thresholds of all insertions."""

OBJECTS, RENEWED = 1_000, 100
"""Objects of a time-stamp; and its insertions, and as many deletions."""

WORKERS, K_MAX = 20, 10
VARIATIONS = {
    "place_k_5": ("place", 5, WORKERS),
    "place_k_10": ("place", K_MAX, WORKERS),
    "place_k_20": ("place", 20, WORKERS),
    "place_workers_40": ("place", K_MAX, 40),
    "twitter_k_10": ("twitter", K_MAX, WORKERS),
}
"""The stream, the greatest k and the workers of each variation (figures 8 and 10 of the paper)."""

WORDS = QueryWords(5)
CKQ_WORDS, CKQ_K = QueryWords(3, all_needed=True), (10, 40)

MADE_UP = {"small": answer_batches.KNN._replace(subscriptions=500, candidates=100), "full": answer_batches.KNN}
"""A bucket of 10,000,000 subscriptions, with made-up distances."""

TARGETS = {"kernel_and_fold_ms_of_cores": 100.0, "seconds": 1.0}


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure growth on data like Place, then k, workers and streams in smaller homes, then SSTD's CKQ."""
    chosen = replace(settings, workers=WORKERS)
    steps = Steps(progress, len(SIZES[scale]) + len(VARIATIONS) + 1)
    figures: dict[str, Any] = {"stored_objects": STORED[scale], "subscriptions": SIZES[scale][-1], "workers": WORKERS}
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as scratch, MemoryWatch() as memory:
        Path(scratch).chmod(0o755)
        _measure_variation(Path(scratch), "place", (1, K_MAX), WORDS, (100, 200), seed, chosen)  # compiles kernels
        for size, measured in _measure_growth(Path(scratch), scale, seed, chosen, progress):
            is_last = size == SIZES[scale][-1]
            figures |= measured if is_last else figures_of("", measured, f"at_{size}")
            steps.end(f"{size:,} subscriptions: kernel and fold {measured['kernel_and_fold_ms']} ms")
        figures["memory_peak_mb"] = memory.own_peak_mb
        for name, (stream, k_max, workers) in VARIATIONS.items():
            own = replace(chosen, workers=workers)
            measured = _measure_variation(Path(scratch), stream, (1, k_max), WORDS, VARIED[scale], seed, own)
            figures |= figures_of(name, measured)
            steps.end(f"{name}: kernel and fold {measured['kernel_and_fold_ms']} ms")
        measured = _measure_variation(Path(scratch), "tw14", CKQ_K, CKQ_WORDS, CONTINUOUS[scale], seed, chosen)
        figures |= figures_of("ckq", measured)
        steps.end(f"CKQ: {measured['seconds']} s")
    figures |= measure_bucket(MADE_UP[scale])
    figures["kernel_and_fold_ms_of_cores"] = round(figures["kernel_and_fold_ms"] / len(os.sched_getaffinity(0)), 1)
    targets = {name: at_most(figures[name], target) for name, target in TARGETS.items()}
    # The batch of one object is the baseline of a time-stamp: the same job without the work.
    floor = {"one_object_seconds": figures.pop("one_object_seconds")}
    return {"figures": figures, "floor": floor, "targets": targets if scale == "full" else {}}


def _measure_growth(
    scratch: Path, scale: str, seed: int, settings: Settings, progress: Progress
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the figures of each size of one home, to which subscriptions are added."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        home = StandingHome(Path(folder), STREAMS["place"], seed, settings, progress)
        home.add_objects(STORED[scale])
        source = home.stream.draw(SOURCE[scale], seed + 77)
        before = 0
        for size in SIZES[scale]:
            filled = _fill(home, source, size - before, (1, K_MAX), WORDS)
            measured = _measure_batches(home, source, BATCHES[scale], (1, K_MAX), WORDS)
            alone = {f"{name}_seconds": round(batch.seconds, 3) for name, batch in _renew_apart(home, source)}
            stored = {
                f"{name}_bytes_per_subscription": round(count / size, 1)
                for name, count in home.bytes_by_array().items()
            }
            first = {"first_answers_cpu_seconds_per_million": round(filled.cpu_seconds / (size - before) * 1e6, 1)}
            yield size, measured | alone | stored | first
            before = size


def _measure_variation(
    scratch: Path,
    stream: str,
    ks: tuple[int, int],
    words: QueryWords,
    sizes: tuple[int, int],
    seed: int,
    settings: Settings,
) -> dict[str, Any]:
    """Return figures of time-stamps in a home of its own."""
    subscriptions, objects = sizes
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        home = StandingHome(Path(folder), STREAMS[stream], seed, settings, lambda _: None)
        home.add_objects(objects)
        source = home.stream.draw(min(subscriptions, 200_000), seed + 77)
        _fill(home, source, subscriptions, ks, words)
        measured = _measure_batches(home, source, 2, ks, words)
    names = ("kernel_and_fold_ms", "seconds", "cpu_seconds", "imbalance_ms", "candidates_per_object")
    return {name: measured[name] for name in names}


def _fill(
    home: StandingHome, source: SyntheticObjects, count: int, ks: tuple[int, int], words: QueryWords
) -> MeasuredBatch:
    """Insert subscriptions in one batch, which evaluates them over the stored objects."""
    home.add_large(count, lambda part, seed: draw_knn(source, part, ks, words, seed))
    return home.run_batch()


def _measure_batches(
    home: StandingHome, source: SyntheticObjects, count: int, ks: tuple[int, int], words: QueryWords
) -> dict[str, Any]:
    """Return the medians of time-stamps."""
    batches = []
    for _ in range(count + 2):
        home.add_objects(OBJECTS)
        home.add_queries(draw_knn(source, RENEWED, ks, words, home.next_seed()), RENEWED)
        batches.append(home.run_batch())
    first, batches = batches[0], batches[2:]
    return {
        "seconds": middle(batches, lambda batch: batch.seconds),
        "cpu_seconds": middle(batches, lambda batch: batch.cpu_seconds),
        "kernel_and_fold_ms": middle(batches, lambda batch: batch.kernel_and_fold * 1e3, 1),
        "kernel_ms": middle(batches, step_cpu("match"), 1),
        "fold_ms": middle(batches, step_cpu("answers_fold"), 1),
        "advance_ms": middle(batches, step_cpu("answers_advance"), 1),
        "evaluate_ms": middle(batches, step_cpu("answers_evaluate"), 1),
        "write_ms": middle(batches, step_cpu("answers_write"), 1),
        "imbalance_ms": middle(batches, lambda batch: max(batch.workers) - min(batch.workers), 1),
        "candidates_per_object": middle(batches, lambda batch: batch.counts["candidates"] / OBJECTS, 2),
        "changes_per_object": middle(batches, lambda batch: batch.counts["changes"] / OBJECTS, 2),
        "written_mb": middle(batches, lambda batch: batch.written_bytes / 1e6, 2),
        "new_thresholds_seconds": round(first.seconds, 2),
        "new_thresholds_cpu_seconds": round(first.cpu_seconds, 2),
    }


def _renew_apart(home: StandingHome, source: SyntheticObjects) -> Iterator[tuple[str, MeasuredBatch]]:
    """Yield a batch of insertions alone, one of deletions alone, and one of a single object, the least work."""
    home.add_queries(draw_knn(source, RENEWED, (1, K_MAX), WORDS, home.next_seed()))
    yield "insert_100", home.run_batch()
    home.add_queries(draw_knn(source, 0, (1, K_MAX), WORDS, home.next_seed()), RENEWED)
    yield "delete_100", home.run_batch()
    home.add_objects(1)
    yield "one_object", home.run_batch()
