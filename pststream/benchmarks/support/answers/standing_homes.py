"""Run micro-batches in a home with standing queries, and measure each: seconds, CPU seconds by step, bytes, counts."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
from pststream.benchmarks.support.answers.standing_worlds import Stream
from pststream.benchmarks.support.homes import CHUNK, START, BenchHome
from pststream.benchmarks.support.own_cache import with_cache
from pststream.delta_tables import read_table
from pststream.ledgers.log_end import Ledger
from pststream.pipeline.batch.micro_batch import match
from pststream.progress import Progress
from pststream.settings import Settings

EVERYTHING = 1 << 40
"""More than the objects and the candidates of any batch."""


class MeasuredBatch(NamedTuple):
    """A micro-batch as `match` runs it, in a warm process.

    seconds, cpu_seconds   from its start to its end, and of all threads
    steps                  its seconds by step, and (`…_cpu`) the CPU seconds within them
    workers                CPU milliseconds of each worker's search
    counts                 objects, requests, and of answers: candidates, evaluations, changes
    written_bytes          by which the files of the home have grown
    """

    seconds: float
    cpu_seconds: float
    steps: dict[str, float]
    workers: list[float]
    counts: dict[str, int]
    written_bytes: int

    @property
    def kernel_and_fold(self) -> float:
        """CPU seconds of the search in both indexes, and of the fold."""
        return sum(self.steps.get(step, 0.0) for step in ("match_cpu", "answers_search_cpu", "answers_fold_cpu"))


class StandingHome:
    """A home of standing queries over a stream, with a cache of its own."""

    def __init__(
        self,
        folder: Path,
        stream: Stream,
        seed: int,
        settings: Settings,
        progress: Progress,
        cache: Path | None = None,
        engine: str = "local",
    ) -> None:
        """Make the home below a folder; cache: the folder to make for its cache, None: beside the home."""
        self.bench = BenchHome(str(folder / "home"), seed, progress)
        with_own_cache = with_cache(cache or folder / "cache", settings)
        self.settings = replace(with_own_cache, max_candidates=EVERYTHING, engine=engine)
        self.stream = stream

    def next_seed(self) -> int:
        """Return a seed for the next file."""
        return self.bench.seed * 1_000_003 + Ledger(self.bench.home).next_file_seq

    def add_objects(self, count: int) -> tuple[int, int]:
        """Append a file of objects of the stream; return its key range (after, to]."""
        return self.bench.add_drawn_objects(self.stream.draw_parts(count, self.next_seed()))

    def add_queries(self, columns: dict[str, pa.Array], delete: int = 0) -> None:
        """Append a file of insertions that live since before the first object, and of deletions of the oldest ones."""
        self.bench.add_insertions(len(columns["kind"]), columns, delete, START)

    def add_large(self, count: int, draw: Callable[[int, int], dict[str, pa.Array]]) -> None:
        """Append files of insertions, each of CHUNK at most; draw: returns so many, by a seed."""
        for at in range(0, count, CHUNK):
            self.add_queries(draw(min(CHUNK, count - at), self.next_seed()))

    def run_batch(self) -> MeasuredBatch:
        """Run one micro-batch over all that is pending."""
        before = _folder_bytes(Path(self.bench.home.path))
        wall, cpu = time.perf_counter(), time.process_time()
        (batch,) = match(self.bench.home, self.settings, max_objects=EVERYTHING, one=True)["batches"]
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        row = read_table(self.bench.home.table(names.BATCHES), None, pds.field("batch_id") == batch["batch_id"])
        (done,) = (one for one in row.to_pylist() if one["status"] == "done")
        counts = {"objects": done["objects"], "requests": done["requests"]}
        for name in ("candidates", "evaluations", "changes"):
            counts[name] = sum(dict(done[name] or ()).values())
        written = _folder_bytes(Path(self.bench.home.path)) - before
        return MeasuredBatch(
            wall, cpu, dict(done["seconds_by_step"]), self._workers(batch["batch_id"]), counts, written
        )

    def _workers(self, batch_id: int) -> list[float]:
        of_workers = (pds.field("batch_id") == batch_id) & (pds.field("unit") == names.WHOLE_WORKER)
        rows = read_table(self.bench.home.table(names.UNIT_LOADS), ["cpu_seconds"], of_workers)
        return [seconds * 1e3 for seconds in rows.column(0).to_pylist()]

    def bytes_by_array(self) -> dict[str, int]:
        """Return the bytes of the files that the node derives: of buffers and the `topk` index (`answers`), of
        segments of the worker index (`index`), and of requests as arrays (`requests`).
        """
        cache, sizes = Path(self.settings.cache_dir), Counter[str]()
        for path in cache.rglob("*"):
            if path.is_file():
                sizes[_array_of(path.relative_to(cache).parts[0])] += path.stat().st_size
        return {name: sizes[name] for name in ("answers", "index", "requests")}


def _array_of(folder: str) -> str:
    """Return what a folder of the cache contains, by its name."""
    if folder == "answers":
        return folder
    if folder.startswith("segments-queries"):
        return "requests"
    return "index" if folder.removeprefix("segments-")[:1].isdigit() else "objects"


def middle(batches: Sequence[MeasuredBatch], figure: Callable[[MeasuredBatch], float], digits: int = 3) -> float:
    """Return the median of a figure of some batches."""
    return round(median(map(figure, batches)), digits)


def step_cpu(step: str) -> Callable[[MeasuredBatch], float]:
    """Return the figure of a batch that is the CPU milliseconds of a step."""
    return lambda batch: batch.steps.get(f"{step}_cpu", 0.0) * 1e3


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
