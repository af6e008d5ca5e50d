"""Benchmark reports of standing frequent terms: seconds of a tick, by objects in the window, batch and way to count.

Regions and objects are those of SSTD's section 7 (support/object_worlds.py, support/answers/standing_regions.py): 0.01%
of the space, a window of 72 hours, a step of one. A tick is the step `report` of a batch as `match` runs it: the first
that passes the tick. The objects of the world are those of the window and of the batch after it.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.region_curve import measured_regions, regions_in_half
from benchmarks.support.answers.standing_regions import K, RegionSet, add_regions
from benchmarks.support.answers.table_terms import answer_with_tables
from benchmarks.support.measured_worlds import MeasuredWorld, build_segments, figures_of, make_world
from benchmarks.support.memory import MemoryWatch
from benchmarks.support.object_worlds import HOUR_US, ObjectWorld
from benchmarks.support.targets import at_most
from pststream.base.progress import Progress, Steps
from pststream.base.utc_times import to_micros
from pststream.kernels.questions.question_arrays import RegionArrays
from pststream.pipeline.answers.log_reports import log_reports
from pststream.pipeline.calibrate.synthetic_homes import START
from pststream.search.answer_rows import AnswerRows
from pststream.search.answerers import answer_regions
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.question_batch import box_regions
from pststream.search.region_terms import answer_shared, group_regions
from pststream.settings import Settings
from pststream.tables.ledgers import log_key

HOURS = 72
"""Of the window; one more hour of objects comes after it."""

SIZES = {"small": (20_000,), "full": (5_000_000, 10_000_000, 50_000_000)}
"""Objects in the window; the last has all figures, the others those of growth."""

REGIONS = {"small": 2_000, "full": 200_000}
"""Regions, but for the curves."""

CURVES: dict[str, dict[str, tuple[int, ...]]] = {
    "small": {"1m": (400,), "10m": (4_000,)},
    "full": {"1m": (5_000, 20_000, 100_000), "10m": (600_000,)},
}
"""Other numbers of regions that are measured at a step, for its curve of regions."""

BATCHES = {"1h": 1.0, "10m": 1 / 6, "1m": 1 / 60}
"""Hours of objects in a batch that passes a tick."""

COUNT_WAYS: Mapping[str, Callable[[ObjectSnapshot, RegionArrays, np.ndarray, np.ndarray, np.ndarray], AnswerRows]] = {
    "shared": answer_shared,
    "single": answer_regions,
    "tables": answer_with_tables,
}
"""Ways to count the frequent terms of many regions, which return the same answers: that of the product, each region by
itself, and the groups of SSTD."""

COMPARED = {"small": (1, 64), "full": (8, 256)}
"""Neighbourhoods, and regions of each, that all ways count."""

TARGETS = {"step_1h_seconds": 150.0, "step_10m_seconds": 300.0, "step_1m_seconds": 30.0, "memory_peak_mb": 3_000.0}


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure ticks at each size; at the last one by length of batch and number of regions, and compare ways."""
    sizes, regions, curves = SIZES[scale], REGIONS[scale], CURVES[scale]
    counts = sorted({regions}.union(*curves.values()))
    steps = Steps(progress, len(sizes) + len(counts))
    figures: dict[str, Any] = {"regions": regions, "window_hours": HOURS}
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as scratch:
        Path(scratch).chmod(0o755)
        _measure_world(scratch, 2_000, 100, seed, settings, progress)
        for size in sizes[:-1]:
            measured = _measure_world(scratch, size, regions, seed, settings, progress)
            figures |= figures_of("", measured, f"at_{size}")
            steps.end(f"{size:,} objects: {measured['step_1h_seconds']} s")
        with MemoryWatch() as building:
            world, added = _make_world(Path(scratch), sizes[-1], counts, seed, settings, progress)
            snapshot, built = build_segments(world)
        figures |= built | {"build_memory_peak_mb": building.own_peak_mb}
        measure = partial(_measure_tick, world, snapshot, sizes[-1] // HOURS)
        with MemoryWatch() as memory:
            for number, (name, hours) in enumerate(BATCHES.items(), 1):
                figures |= figures_of(f"step_{name}", measure(log_key(1, regions), hours, number))
        figures["memory_peak_mb"] = memory.own_peak_mb
        steps.end(f"{sizes[-1]:,} objects: {figures['step_1h_seconds']} s")
        others = [(step, count) for step, of_step in curves.items() for count in of_step]
        for number, (step, count) in enumerate(others, len(BATCHES) + 1):
            tick = measure(log_key(1, count), BATCHES[step], number)
            figures |= figures_of(f"step_{step}", tick, f"of_{count}_regions")
            steps.end(f"step of {step}, {count:,} regions: {tick['seconds']} s")
        for step in curves:
            served = regions_in_half(step, measured_regions(figures, step, "seconds"))
            figures[f"step_{step}_regions_in_half"] = served
        figures |= _compare_ways(snapshot, added.boxes[:regions], *COMPARED[scale], seed)
        steps.end("ways to count")
    targets = {name: at_most(figures[name], target) for name, target in TARGETS.items()}
    return {"figures": figures, "floor": {}, "targets": targets if scale == "full" else {}}


def _measure_world(
    scratch: str, size: int, regions: int, seed: int, settings: Settings, progress: Progress
) -> dict[str, float]:
    """Measure a tick in a world of its own."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        world, added = _make_world(Path(folder), size, [regions], seed, settings, progress)
        snapshot, _ = build_segments(world)
        _compare_ways(snapshot, added.boxes, 1, 32, seed)
        measured = _measure_tick(world, snapshot, size // HOURS, added.last_key, BATCHES["1h"], 1)
        return figures_of("step_1h", measured)


def _make_world(
    folder: Path, size: int, counts: Sequence[int], seed: int, settings: Settings, progress: Progress
) -> tuple[MeasuredWorld, RegionSet]:
    """Write a file of objects for each hour of the window, and one for the hour after it; add regions.

    counts: ascending; the first so many regions are in files of their own
    """
    objects = ObjectWorld(size // HOURS * (HOURS + 1), HOURS + 1, seed=seed, hours=HOURS + 1)
    world = make_world(folder, objects, settings, progress)
    return world, add_regions(world.home, counts[-1], HOURS, seed, counts[:-1])


def _measure_tick(
    world: MeasuredWorld, snapshot: ObjectSnapshot, rows: int, last_request: int, hours: float, batch_id: int
) -> dict[str, float]:
    """Measure the reports of a batch with so many hours of objects, half of them before the tick, half after it.

    rows: objects of an hour
    """
    half = max(1, round(rows * hours / 2))
    batch = {
        "batch_id": batch_id,
        "requests_after": last_request,
        "requests_to": last_request,
        "objects_after": log_key(HOURS, rows - half),
        "objects_to": log_key(HOURS + 1, half),
    }
    stream_times = (snapshot.last_time(batch[name]) for name in ("objects_after", "objects_to"))
    wall, cpu = time.perf_counter(), time.process_time()
    counts = log_reports(world.home, world.settings, batch, *stream_times)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "seconds": round(wall, 2),
        "cpu_seconds": round(cpu, 2),
        "batch_objects": 2 * half,
        "reports": sum(counts.evaluations.values()),
        "rows": sum(counts.changes.values()),
    }


def _compare_ways(snapshot: ObjectSnapshot, boxes: np.ndarray, places: int, each: int, seed: int) -> dict[str, float]:
    """Measure the CPU milliseconds of a region by each way, in some neighbourhoods; the answers must be equal."""
    near = group_regions(boxes, np.zeros((len(boxes), 1), np.int64), np.arange(len(boxes)), each)
    chosen = [near[place] for place in np.random.default_rng([seed, 5]).permutation(len(near))[:places].tolist()]
    tick = to_micros(START) + HOURS * HOUR_US
    figures, answers = {}, list[list[AnswerRows]]()
    for name, count_terms in COUNT_WAYS.items():
        began = time.process_time()
        answers.append([count_terms(snapshot, *_asked(boxes[rows], tick)) for rows in chosen])
        figures[f"{name}_ms"] = round((time.process_time() - began) / sum(map(len, chosen)) * 1e3, 4)
    for other in answers[1:]:
        for one, another in zip(answers[0], other, strict=True):
            if not all(one.columns[name].equals(another.columns[name]) for name in one.columns):
                raise ValueError("two ways to count terms have different answers")
    return figures | {"compared_regions": sum(map(len, chosen))}


def _asked(boxes: np.ndarray, tick: int) -> tuple[RegionArrays, np.ndarray, np.ndarray, np.ndarray]:
    """Return the arguments of a way to count terms: boxes, at a tick."""
    count = len(boxes)
    after, up_to = np.tile([tick - HOURS * HOUR_US, LAST_KEY], (count, 1)), np.tile([tick, LAST_KEY], (count, 1))
    return box_regions(boxes), after, up_to, np.full(count, K)
