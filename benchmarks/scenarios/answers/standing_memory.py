"""Benchmark the memory of Spark's Python workers with standing `knn` and `topk` queries, by subscriptions.

The workloads are those of `knn` and `topk` (support/measured_homes.py). A home grows by one batch of
insertions for each size, which evaluates all of them over the stored objects; batches of objects follow, the first of
which indexes the new thresholds. A task is a bucket of answers, and each of Spark's cores has a Python worker.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from benchmarks.support.measured_homes import STREAMS, StandingHome, draw_topk
from benchmarks.support.measured_worlds import figures_of
from benchmarks.support.memory import MemoryWatch
from benchmarks.support.targets import at_most
from pststream.base.progress import Progress, Steps
from pststream.pipeline.calibrate.synthetic_homes import QueryWords, draw_knn
from pststream.pipeline.upkeep.term_statistics import make_term_statistics
from pststream.settings import Settings
from pststream.workloads.synthetic_arrays import SyntheticObjects

SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "small": {"knn": (300, 600), "topk": (300, 600)},
    "full": {"knn": (1_000_000, 5_000_000, 10_000_000), "topk": (1_000_000, 2_000_000, 5_000_000)},
}
"""Subscriptions of the growing homes."""

STORED = {"small": 2_000, "full": 1_000_000}
"""Objects before the first batch, and the window of `topk`."""

SOURCE = {"small": 2_000, "full": 200_000}
"""Objects from which queries are drawn; they are not among those of the home."""

BATCHES = 2
"""Batches of objects after each fill."""

WORDS = QueryWords(5)
TARGET_MB = 3_000.0


class Workload(NamedTuple):
    """Queries of one kind.

    stream   name in STREAMS
    objects  of a batch, at full scale
    draw     draws so many queries from objects, by the window and a seed
    """

    stream: str
    objects: int
    draw: Callable[[SyntheticObjects, int, int, int], dict[str, pa.Array]]


WORKLOADS = {
    "knn": Workload("place", 1_000, lambda source, count, _, seed: draw_knn(source, count, (1, 10), WORDS, seed)),
    "topk": Workload(
        "tweets",
        10_000,
        lambda source, count, window, seed: draw_topk(source, count, 20, {"window_objects": window}, WORDS, seed),
    ),
}


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the peak memory of a Python worker and of the driver at each size, without mapped files."""
    steps = Steps(progress, sum(map(len, SIZES[scale].values())))
    figures: dict[str, Any] = {"stored_objects": STORED[scale]}
    for kind in WORKLOADS:
        for size, measured in _measure_growth(kind, scale, seed, settings, progress):
            figures |= figures_of(f"{kind}_at_{size}", measured)
            steps.end(f"{size:,} {kind}: {measured['fill_worker_mb']} MB, {measured['batch_worker_mb']} MB a batch")
    targets = {
        f"{kind}_at_{sizes[-1]}_{name}": at_most(figures[f"{kind}_at_{sizes[-1]}_{name}"], TARGET_MB)
        for kind, sizes in SIZES[scale].items()
        for name in ("fill_worker_mb", "batch_worker_mb")
    }
    return {"figures": figures, "floor": {}, "targets": targets if scale == "full" else {}}


def _measure_growth(
    kind: str, scale: str, seed: int, settings: Settings, progress: Progress
) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the figures of each size of one home, to which subscriptions of a kind are added."""
    workload, stored, before = WORKLOADS[kind], STORED[scale], 0
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        Path(folder).chmod(0o755)
        home = StandingHome(Path(folder), STREAMS[workload.stream], seed, settings, progress, engine="spark")
        home.add_objects(stored)
        make_term_statistics(home.bench.home, home.settings)
        source = home.stream.draw(SOURCE[scale], seed + 77)
        for size in SIZES[scale][kind]:
            home.add_large(size - before, lambda part, own: workload.draw(source, part, stored, own))
            filled = _measure(home)
            batches = []
            for _ in range(BATCHES):
                home.add_objects(min(workload.objects, stored))
                batches.append(_measure(home))
            yield size, figures_of("fill", filled) | figures_of("batch", max(batches, key=lambda one: one["worker_mb"]))
            before = size


def _measure(home: StandingHome) -> dict[str, float]:
    """Run a batch; return its seconds and the peak memory of a worker and of this process, the driver."""
    with MemoryWatch() as memory:
        batch = home.run_batch()
    peak = memory.peaks["python_worker_peak_mb"]
    return {"seconds": round(batch.seconds, 1), "worker_mb": peak, "driver_mb": memory.own_peak_mb}
