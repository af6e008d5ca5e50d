"""Benchmark questions about stored objects: compute per question, segments, the command `ask`, and other systems.

Workload and defaults are those of SSTD's section 7 (support/object_worlds.py, support/question_sets.py). `ms` of a
question is CPU time on warm segments, all questions of a style in one pass; `wall_ms` is the elapsed time. Worlds of
one size differ in layout: `small_files` has an ingest for each hour, `compacted` the same objects after `maintain`.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.support.measured_worlds import (
    MeasuredWorld,
    build_segments,
    figures_of,
    make_world,
    run_ask,
    run_command,
    time_questions,
    with_cache,
)
from benchmarks.support.memory import MemoryWatch
from benchmarks.support.object_worlds import DAYS, ObjectWorld
from benchmarks.support.question_peers import PEERS, compare_peers
from benchmarks.support.question_sets import STYLES, draw_mixed, draw_questions, worst_cases
from benchmarks.support.targets import at_most
from pststream.base.progress import Progress, Steps
from pststream.pipeline.upkeep.maintain import compact_tables
from pststream.queries.kinds.registry import QUESTION_KINDS
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.settings import Settings

SIZES = {"small": (20_000, 40_000), "full": (5_000_000, 10_000_000, 20_000_000, 50_000_000)}
"""Objects of the worlds; the last has all figures, the others those of growth."""

QUESTIONS = {"small": 40, "full": 200}
"""Questions of each style: SSTD submits 200 together."""

WORST = {"small": 2, "full": 10}
MIXED = {"small": 200, "full": 10_000}
RUNS = {"small": 1, "full": 3}
"""Runs of each command; the median counts."""

HOURLY_FILES = {"small": 60, "full": 24 * DAYS}
MS_TARGETS = {"range": 0.1, "range_area_1%": 1.0, "knn": 0.5, "frequent_terms": 1.0, "topk": 0.05}
WORST_MS = 20.0
COUNTING = "frequent_terms_of_the_world"
"""The worst case that counts terms of millions of objects, and has no target."""

TARGETS = {
    "build_cpu_seconds_per_million": 2.0, "bytes_per_object": 130.0, "ask_mixed_seconds": 5.0, "ask_one_seconds": 1.0,
    "memory_peak_mb": 12_000.0,
}  # fmt: skip


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure growth, layouts, distributions of places, and at the last size styles, worst cases, `ask` and peers."""
    sizes, count = SIZES[scale], QUESTIONS[scale]
    steps = Steps(progress, len(sizes) - 1 + 6 + len(PEERS))
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as scratch, MemoryWatch() as memory:
        Path(scratch).chmod(0o755)
        _warm_up(scratch, seed, settings)
        for size in sizes[:-1]:
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                world = make_world(Path(folder), ObjectWorld(size, seed=seed), settings, progress)
                figures |= figures_of("", _measure_defaults(world, count, seed), f"at_{size}")
                steps.end(f"{size:,} objects")
        figures |= _compare_layouts(scratch, ObjectWorld(sizes[0], HOURLY_FILES[scale], seed=seed), count, settings)
        steps.end("small files and compacted ones")
        for places in ("uniform", "gaussian"):
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                world = make_world(Path(folder), ObjectWorld(sizes[0], places=places, seed=seed), settings, progress)
                figures |= figures_of(places, _measure_defaults(world, count, seed))
                steps.end(f"{places} places")
        world = make_world(Path(scratch), ObjectWorld(sizes[-1], seed=seed), settings, progress)
        snapshot, built = build_segments(world)
        figures |= built
        steps.end(f"{sizes[-1]:,} objects: {built['build_cpu_seconds_per_million']} CPU s a million to build")
        figures |= _measure_styles(world, snapshot, count, WORST[scale], seed)
        steps.end("styles and worst cases")
        asked, floor = _measure_ask(world, Path(scratch), MIXED[scale], RUNS[scale], seed)
        figures |= asked
        steps.end(f"ask: {asked['ask_mixed_seconds']} s for {asked['ask_mixed_questions']:,} questions")
        figures["memory_peak_mb"] = memory.own_peak_mb
        for name, compared in compare_peers(world, snapshot, Path(scratch), count, seed):
            figures |= figures_of(name, compared)
            steps.end(f"{name}: {compared['state']}")
    return {"figures": figures, "floor": floor, "targets": _targets(figures) if scale == "full" else {}}


def _warm_up(scratch: str, seed: int, settings: Settings) -> None:
    """Answer questions about a few objects, also by `ask`, so that no kernel compiles while others are measured."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        world = make_world(Path(folder), ObjectWorld(1000, seed=seed), settings, lambda _: None)
        _measure_defaults(world, 2, seed)
        _measure_ask(world, Path(folder), 4, 1, seed)


def _measure_defaults(world: MeasuredWorld, count: int, seed: int) -> dict[str, Any]:
    """Build the segments, and measure the default of each kind."""
    snapshot, figures = build_segments(world)
    return _default_figures(world, snapshot, count, seed) | {
        name: figures[name] for name in ("segments", "build_cpu_seconds_per_million", "bytes_per_object")
    }


def _default_figures(world: MeasuredWorld, snapshot: ObjectSnapshot, count: int, seed: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for kind in QUESTION_KINDS:
        records = draw_questions(world.sampled, STYLES[kind], count, seed)
        figures[f"{kind}_ms"] = time_questions(snapshot, records, world.settings)[0]["ms"]
    return figures


def _compare_layouts(scratch: str, hourly: ObjectWorld, count: int, settings: Settings) -> dict[str, Any]:
    """Measure a world of many small files, and the same after `maintain` has compacted them."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        world = make_world(Path(folder), hourly, settings, lambda _: None)
        figures = figures_of("small_files", _measure_defaults(world, count, hourly.seed))
        compact_tables(world.home, world.settings)
        compacted = MeasuredWorld(world.home, with_cache(Path(folder, "compacted"), settings), world.sampled)
        return figures | figures_of("compacted", _measure_defaults(compacted, count, hourly.seed))


def _measure_styles(
    world: MeasuredWorld, snapshot: ObjectSnapshot, count: int, worst: int, seed: int
) -> dict[str, Any]:
    """Measure every style and every worst case; wall time and rows too for the defaults."""
    figures: dict[str, Any] = {}
    for name, style in STYLES.items():
        measured, _ = time_questions(snapshot, draw_questions(world.sampled, style, count, seed), world.settings)
        figures |= figures_of(name, measured if name == style.kind else {"ms": measured["ms"]})
    for name, records in worst_cases(world.sampled, worst, seed).items():
        measured, _ = time_questions(snapshot, records, world.settings)
        figures |= figures_of(f"worst_{name}", {"ms": measured["ms"], "rows": measured["rows"]})
    return figures


def _measure_ask(
    world: MeasuredWorld, scratch: Path, count: int, repeats: int, seed: int
) -> tuple[dict[str, Any], dict[str, float]]:
    """Measure the command `ask`, process start included: a file of mixed questions, and one question.

    The baseline starts a process that prints the version, and writes the same answers again.
    """
    file, answers = scratch / "mixed.jsonl", scratch / "answers.parquet"
    records = draw_mixed(world.sampled, count, seed)
    file.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    runs = [run_ask(world, str(file), "--out", str(answers), "--json", "--quiet") for _ in range(repeats)]
    seconds, cpu, printed = sorted(runs)[repeats // 2]
    document = json.loads(printed)
    figures: dict[str, Any] = {
        "ask_mixed_questions": document["questions"],
        "ask_mixed_rows": document["rows"],
        "ask_mixed_seconds": round(seconds, 2),
        "ask_mixed_cpu_seconds": round(cpu, 2),
        **{f"ask_mixed_{step}_seconds": round(elapsed, 2) for step, elapsed in document["seconds"].items()},
    }
    point = records[1]["point"]
    one = ("--kind", "knn", "--point", f"{point['lon']},{point['lat']}", "--keywords", records[1]["keywords"])
    times = [run_ask(world, *one, "-k", "10", "--window", "72h", "--quiet") for _ in range(repeats)]
    figures["ask_one_seconds"] = round(statistics.median(time for time, _, _ in times), 3)
    figures["ask_one_cpu_seconds"] = round(statistics.median(cpu for _, cpu, _ in times), 3)
    starts = statistics.median(run_command(world, "--version")[0] for _ in range(repeats))
    return figures, {"start_seconds": round(starts, 3), "write_answers_seconds": _write_again(answers)}


def _write_again(answers: Path) -> float:
    began = time.perf_counter()
    pq.write_table(pq.read_table(answers), answers.with_name("again.parquet"), compression="zstd")
    return round(time.perf_counter() - began, 3)


def _targets(figures: Mapping[str, Any]) -> dict[str, Any]:
    targets = {f"{name}_ms": at_most(figures[f"{name}_ms"], target) for name, target in MS_TARGETS.items()}
    for name in figures:
        if name.startswith("worst_") and name.endswith("_ms") and COUNTING not in name:
            targets[name] = at_most(figures[name], WORST_MS)
    return targets | {name: at_most(figures[name], target) for name, target in TARGETS.items()}
