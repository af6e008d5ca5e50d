"""Benchmark the planners on standing queries: DkM-SKS's `knn`, and a mix of kinds, in micro-batches of the real job.

Source: DkM-SKS, section 5: 20 workers, k up to 10, at most five words, 100 insertions and as many deletions a
time-stamp; tables 2 (load balance) and 3 (update time). Departures: 200,000 subscriptions for 10,000,000; the streams
are made up (support/measured_homes.py); workers are logical, so their times are CPU milliseconds of one after
the other, without a network.
"""

import shutil
import tempfile
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from benchmarks.support.measured_homes import STREAMS, MeasuredBatch, StandingHome, middle, step_cpu
from benchmarks.support.measured_worlds import figures_of
from benchmarks.support.targets import at_most
from pststream.base import names
from pststream.base.errors import PstError
from pststream.base.progress import Progress, Steps
from pststream.pipeline.batch.micro_batch import match_and_discard
from pststream.pipeline.calibrate.synthetic_homes import QueryWords, clause_lists, draw_knn, side_lists
from pststream.pipeline.planning.plan import plan
from pststream.pipeline.replan.compare_planners import correlation, share_rounds
from pststream.queries.kinds.range import RANGE
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.slices import KeyRange
from pststream.tables.delta_tables import read_table, table_version
from pststream.tables.ledgers import Ledger
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.synthetic_arrays import SyntheticObjects, synthetic_subscriptions

SIZES = {"small": (2_000, 2_000, 500), "full": (200_000, 200_000, 20_000)}
"""Subscriptions, stored objects, and objects of a batch. The paper's time-stamps have 1,000 objects."""

BATCHES = {"small": 1, "full": 3}
"""Measured batches under a plan, after one that builds its segments."""

ROUNDS = {"small": 2, "full": 10}
"""Times that the objects of the measured batches are searched."""

WORKERS, K, WORDS, RENEWED = 20, (1, 10), QueryWords(5), 100
PAPER = 1_000
"""Objects of a time-stamp in the paper, to which milliseconds refer."""

OF_DKM = ("hybrid", "keyword_oriented", "space_oriented", "dkm_sks", "kd_tree", "auto")
"""The planners of table 2, of which `hybrid` is PS2Stream's, and the default and `auto`."""

IMBALANCE = 0.07
"""(Greatest - least) / greatest of DkM-SKS on Place: 32 of 471 ms."""

SLOWER = 1.05
"""How much slower than the best other planner `auto` may be."""

Draw = Callable[[SyntheticObjects, int, int], list[dict[str, pa.Array]]]
"""Draws subscriptions from objects: so many, by a seed; returns columns of `requests`, a table for each kind."""

DrawMore = Callable[[int, int], list[dict[str, pa.Array]]]
"""Draws subscriptions from given objects."""


def draw_nearest(source: SyntheticObjects, count: int, seed: int) -> list[dict[str, pa.Array]]:
    """Draw the `knn` subscriptions of the paper."""
    return [draw_knn(source, count, K, WORDS, seed)]


def draw_mixed(source: SyntheticObjects, count: int, seed: int) -> list[dict[str, pa.Array]]:
    """Draw a third of each: `knn`, regions with words as in PS2Stream's Q1, and small regions without words."""
    third = count // 3
    regions = synthetic_subscriptions(third, seed, source, SubscriptionStyle("q1"))
    small = synthetic_subscriptions(third, seed + 1, source, SubscriptionStyle("q1", side_km=(0.1, 2.0)))
    every = pa.array([[[names.EVERY_OBJECT]]] * third, clause_lists(small).type)
    kind = {"kind": pa.repeat(RANGE.name, third)}
    return [
        draw_knn(source, count - 2 * third, K, WORDS, seed),
        {**kind, "clauses": clause_lists(regions), **side_lists(regions.boxes)},
        {**kind, "clauses": every, **side_lists(small.boxes), "keywords": pa.nulls(third, pa.string())},
    ]


WORKLOADS: dict[str, tuple[str, Draw, tuple[str, ...]]] = {
    "place": ("place", draw_nearest, OF_DKM),
    "twitter": ("twitter", draw_nearest, OF_DKM),
    "mixed": ("tw14", draw_mixed, tuple(names.PLANNERS)),
}
"""Stream, subscriptions and planners of each workload."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure each planner of each workload in a copy of one home: a new plan, then the same batches under it.

    All must find the same changes of answers. Of `auto`, `auto_over_best` is the CPU time of its slowest worker over
    the least of the others.
    """
    figures: dict[str, Any] = dict(zip(("subscriptions", "stored_objects", "batch_objects"), SIZES[scale]))
    steps = Steps(progress, sum(len(planners) + ROUNDS[scale] for _, _, planners in WORKLOADS.values()))
    targets = {}
    for workload, (stream, draw, planners) in WORKLOADS.items():
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as scratch:
            folder = Path(scratch)
            start = StandingHome(folder, STREAMS[stream], seed, replace(settings, workers=WORKERS), lambda _: None)
            source = start.stream.draw(min(SIZES[scale][1], 200_000), seed + 77)
            version = _fill(start, partial(draw, source), scale)
            trials = []
            for planner in planners:
                home = _copy(start, folder / planner)
                trials.append(_Trial(home, planner, partial(draw, source), scale, version))
                steps.end(f"{workload}, {planner}: plan and batches")
            for number in range(ROUNDS[scale]):
                for trial in trials:
                    trial.search()
                steps.end(f"{workload}: search {number + 1} of {ROUNDS[scale]}")
            share_rounds((trial.made_by, trial.searched) for trial in trials)
            measured = {trial.planner: trial.figures(scale) for trial in trials}
            changes = {of_planner["changes_per_object"] for of_planner in measured.values()}
            for planner in planners:
                figures |= figures_of(f"{workload}_{planner}", measured[planner])
        if len(changes) > 1:
            raise PstError(f"planners found different changes of answers: {changes}", "please report this bug")
        share = f"{workload}_dkm_sks_imbalance_share"
        targets[share] = at_most(figures[share], IMBALANCE)
        least = min(figures[f"{workload}_{planner}_slowest_ms"] for planner in planners if planner != names.AUTO)
        ratio = f"{workload}_auto_over_best"
        figures[ratio] = round(figures[f"{workload}_auto_slowest_ms"] / least, 3)
        targets[ratio] = at_most(figures[ratio], SLOWER)
    return {"figures": figures, "floor": {}, "targets": targets if scale == "full" else {}}


def _fill(start: StandingHome, draw: DrawMore, scale: str) -> int:
    """Evaluate subscriptions over half of the stored objects, and run batches with the other half.

    Returns the Delta version of `objects` after which the sample of a plan begins: behind the batch after the first
    answers, which indexes their thresholds. So the requests of its period are those of a batch, and not the fill.
    """
    subscriptions, objects, of_batch = SIZES[scale]
    start.add_objects(objects // 2)
    for columns in draw(subscriptions, start.next_seed()):
        start.add_queries(columns)
    start.run_batch()
    _run_batch(start, draw, of_batch)
    version = table_version(start.bench.home.table(names.OBJECTS))
    for _ in range(objects // 2 // of_batch):
        _run_batch(start, draw, of_batch)
    return version


def _run_batch(home: StandingHome, draw: DrawMore, objects: int) -> tuple[MeasuredBatch, int]:
    """Run a batch of objects, RENEWED insertions and as many deletions; return it, and the key before its objects."""
    after, _ = home.add_objects(objects)
    for number, columns in enumerate(draw(RENEWED, home.next_seed())):
        home.add_queries(columns, 0 if number else RENEWED)
    return home.run_batch(), after


def _copy(start: StandingHome, folder: Path) -> StandingHome:
    """Return a copy of a home in a new folder."""
    folder.mkdir()
    shutil.copytree(start.bench.home.path, folder / "home")
    copied = copy(start)
    copied.bench = copy(start.bench)
    copied.bench.home = Home(str(folder / "home"))
    return copied


class _Trial:
    """A planner's plan in a home of its own, batches under it, and searches of the objects of these batches.

    searched  float64[WORKERS] for each search: CPU seconds of each worker

    The searches of all planners are measured in turn, in the indexes as they are after the batches: what a shared
    machine and the first use of new segments add to the search in a batch differs by more than the plans do.
    """

    def __init__(self, home: StandingHome, planner: str, draw: DrawMore, scale: str, version: int) -> None:
        """Make a plan from the objects after a Delta version, and run batches."""
        self.home, self.planner, self.searched = home, planner, list[np.ndarray]()
        self.made = plan(home.bench.home, replace(home.settings, planner=planner), versions=(version, None))
        _, *runs = [_run_batch(home, draw, SIZES[scale][2]) for _ in range(BATCHES[scale] + 1)]
        self.batches, self.after_key = [batch for batch, _ in runs], runs[0][1]

    @property
    def made_by(self) -> str:
        """The planner, of `auto` the one that it chose."""
        return str(self.made["choice"]["planner"]) if "choice" in self.made else self.planner

    def search(self) -> None:
        """Search the objects of the batches once more, and measure."""
        seconds, home = np.zeros(WORKERS), self.home
        later = KeyRange("object_key", self.after_key, names.MAX_INT64)
        reports = match_and_discard(home.bench.home, home.settings, self.made["plan_version"], slice(None), later)
        for report in reports:
            seconds[report.worker] = report.cpu_seconds
        self.searched.append(seconds)

    def figures(self, scale: str) -> dict[str, Any]:
        """Return the figures of the batches and of the searches, of which the least of each worker counts.

        throughput            objects over the CPU seconds of the slowest worker's search
        slowest_ms, total_ms  CPU time of the search, of the slowest worker and of all, for PAPER objects
        imbalance_ms          by how much the slowest worker is slower than the fastest, for PAPER objects
        imbalance_share       the same over the slowest; sent_share: of the objects that workers receive;
                              postings_share: of the postings that they read
        copies                workers that an object goes to, on average
        pieces                stored boxes for each subscription, with the earlier circles of `knn` and all workers
        changes_per_object    messages about answers
        insert_ms             CPU time of workers to index the insertions of a batch
        model_...             what the cost model predicted, the indexing of insertions included, and its correlation
                              with the search over workers
        made_by               the planner, of `auto` the one that it chose
        """
        bench, of_batch, batches = self.home.bench, SIZES[scale][2], self.batches
        last = Ledger(bench.home).next_batch_id - 1
        objects, stored, postings = _of_workers(self.home, last - len(batches), last)
        seconds = np.min(self.searched, axis=0)
        streamed, predicted = len(batches) * of_batch, np.array(self.made["worker_loads"])
        of_period = SIZES[scale][1] // 2 // of_batch * of_batch  # objects that `_fill` adds after `version`
        return {
            "throughput": round(streamed / float(seconds.max())),
            "slowest_ms": round(float(seconds.max()) / streamed * PAPER * 1e3, 3),
            "total_ms": round(float(seconds.sum()) / streamed * PAPER * 1e3, 3),
            "imbalance_ms": round(float(np.ptp(seconds)) / streamed * PAPER * 1e3, 3),
            "imbalance_share": _share(seconds),
            "sent_share": _share(objects),
            "postings_share": _share(postings),
            "copies": round(float(objects.sum()) / streamed, 3),
            "pieces": round(float(stored.sum()) / len(batches) / len(bench.live), 3),
            "changes_per_object": middle(batches, lambda batch: batch.counts["changes"] / of_batch, 2),
            "dispatch_ms": middle(batches, lambda batch: step_cpu("dispatch")(batch) / of_batch * PAPER, 2),
            "insert_ms": middle(batches, step_cpu("index"), 2),
            "kernel_and_fold_ms": middle(batches, lambda batch: batch.kernel_and_fold * 1e3 / of_batch * PAPER, 2),
            "plan_seconds": self.made["seconds"],
            "model_total_ms": round(float(predicted.sum()) / of_period * PAPER * 1e3, 3),
            "model_share": _share(predicted),
            "model_correlation": correlation(predicted, seconds),
            "made_by": self.made_by,
        }


def _of_workers(home: StandingHome, after: int, up_to: int) -> list[np.ndarray]:
    """Return sums over the batches with after < id <= up_to: objects, stored subscriptions and postings read of each
    worker, 0 for one without objects.
    """
    of_batches = (
        (pds.field("batch_id") > after) & (pds.field("batch_id") <= up_to) & (pds.field("unit") == names.WHOLE_WORKER)
    )
    rows = read_table(home.bench.home.table(names.UNIT_LOADS), filter=of_batches)
    worker = rows.column("worker").to_numpy()
    sums = ("objects", "subscriptions", "candidates")
    return [np.bincount(worker, rows.column(name).to_numpy(), WORKERS) for name in sums]


def _share(loads: np.ndarray) -> float:
    """Return (greatest - least) / greatest."""
    return round(float(np.ptp(loads) / max(loads.max(), 1e-12)), 4)
