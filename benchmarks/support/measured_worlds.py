"""Build a home of stored objects with its segments in a cache of its own, and measure questions about it."""

import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.support.object_worlds import ObjectWorld, SampledObjects, write_world
from benchmarks.support.question_sets import Record
from benchmarks.support.watchers import COMMAND
from pststream.base import names
from pststream.base.progress import Progress
from pststream.pipeline.calibrate.synthetic_homes import CACHE_BYTES, with_cache
from pststream.search.answer_rows import AnswerRows
from pststream.search.answerers import ANSWERERS
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.open_snapshot import open_snapshot
from pststream.search.question_batch import TimedQuestion
from pststream.search.read_questions import read_question_records
from pststream.settings import Settings
from pststream.state.data_files import list_data_files
from pststream.state.home import Home

RUNS = 3


@dataclass(frozen=True)
class MeasuredWorld:
    """A home with the objects of a world, the settings that name its cache, and a sample of its objects."""

    home: Home
    settings: Settings
    sampled: SampledObjects

    def environment(self) -> dict[str, str]:
        """Return the environment of commands that use this cache."""
        own = {"PSTSTREAM_CACHE_DIR": self.settings.cache_dir, "PSTSTREAM_CACHE_BYTES": str(CACHE_BYTES)}
        return os.environ | own


def make_world(folder: Path, world: ObjectWorld, settings: Settings, progress: Progress) -> MeasuredWorld:
    """Write the objects of a world into a new home below a folder."""
    home = Home(str(folder / "home"))
    home.init()
    return MeasuredWorld(home, with_cache(folder / "cache", settings), write_world(home, world, progress))


def build_segments(world: MeasuredWorld) -> tuple[ObjectSnapshot, dict[str, float]]:
    """Build the segments of all objects; return them, and the CPU seconds and bytes that they take."""
    wall, cpu = time.perf_counter(), time.process_time()
    snapshot = open_snapshot(world.home, world.settings)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    files = list_data_files(world.home, names.OBJECTS)
    objects = sum(file.rows for file in files)
    cached = [path for path in Path(world.settings.cache_dir).glob("segments-*/*") if path.is_file()]
    return snapshot, {
        "objects": objects,
        "files": len(files),
        "segments": len(snapshot.segments),
        "stored_bytes_per_object": round(sum(file.bytes for file in files) / objects, 1),
        "bytes_per_object": round(sum(path.stat().st_size for path in cached) / objects, 1),
        "build_cpu_seconds_per_million": round(cpu / objects * 1e6, 2),
        "build_seconds": round(wall, 2),
    }


def time_questions(
    snapshot: ObjectSnapshot, records: Sequence[Record], settings: Settings
) -> tuple[dict[str, float], AnswerRows]:
    """Answer questions of one kind in one pass, as a batch of `ask`, on warm segments: the median of RUNS.

    Returns {"ms": CPU ms of a question, "wall_ms", "rows": of a question} and the rows.
    """
    read = read_question_records(records, settings)
    if read.rejects:
        raise ValueError(f"questions of the benchmark are rejected: {read.rejects[:3]}")
    timed = [TimedQuestion(question.parsed, question.as_of) for question in read.questions]
    answer = ANSWERERS[read.questions[0].kind.name]
    rows = answer(snapshot, timed)
    cpu, wall = [], []
    for _ in range(RUNS):
        began = time.perf_counter(), time.process_time()
        rows = answer(snapshot, timed)
        wall.append(time.perf_counter() - began[0])
        cpu.append(time.process_time() - began[1])
    count = len(timed)
    return {
        "ms": round(statistics.median(cpu) / count * 1e3, 4),
        "wall_ms": round(statistics.median(wall) / count * 1e3, 4),
        "rows": round(len(rows.rank) / count, 1),
    }, rows


def run_ask(world: MeasuredWorld, *arguments: str) -> tuple[float, float, str]:
    """Run `pststream ask` in a process of its own; return its seconds, its CPU seconds, and what it printed."""
    return run_command(world, "ask", *arguments, "--home", world.home.path)


def run_command(world: MeasuredWorld, *arguments: str) -> tuple[float, float, str]:
    """Run a command of `pststream`; return its seconds, its CPU seconds, and what it printed."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(
        [*COMMAND, *arguments], env=world.environment(), stdout=subprocess.PIPE, check=True, text=True
    )
    seconds, after = time.perf_counter() - began, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, cpu, done.stdout


def figures_of(prefix: str, measured: dict[str, float], suffix: str = "") -> dict[str, Any]:
    """Return figures under names of their own: prefix, figure, suffix."""
    return {"_".join(filter(None, (prefix, name, suffix))): value for name, value in measured.items()}
