"""Compare planners (`pststream plans compare`): match the newest objects of a home under the plan of each, and time it.

The tables of the home do not change: each planner has a scratch home (`Trial`) in which the usual jobs run.
The measured loads are reported next to those that the load model predicted.
"""

import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as pds

from pststream.answers.topk_units import measure_plan
from pststream.base import names
from pststream.base.arrow_columns import sum_column
from pststream.base.errors import PstError, UsageError
from pststream.base.progress import Progress, no_progress
from pststream.engine.running_engine import get_engine, runs_elsewhere
from pststream.engine.task_context import segment_cache
from pststream.matching.matcher import LiveTermFilter
from pststream.pipeline.answers.unit_candidates import DrawnTopk, draw_topk_sample
from pststream.pipeline.batch.micro_batch import match, match_and_discard
from pststream.pipeline.planning.plan import new_plan
from pststream.planning.dispatch import make_dispatch
from pststream.planning.papers.topk_planners import make_topk_plan
from pststream.planning.papers.topk_sample import TopkSample, count_loads
from pststream.planning.planners.registry import installed_planners, load_planner
from pststream.plans.imbalance import finite_imbalance, imbalance_of
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_rows import planner_of
from pststream.settings import Settings, read_planner_options
from pststream.state import ledger_tables
from pststream.state.data_files import (
    DataFile,
    FileWriter,
    add_references,
    addresses_and_rows,
    commit_files,
    list_data_files,
)
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.plans import current_version, load_plan, read_plan_rows, topk_planner_of
from pststream.state.scratch import scratch_folder
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import last_transaction, read_table
from pststream.tables.ledgers import log_key, read_batches, read_files

BEFORE_ALL = -1
"""A key before all keys of a log."""


def add_rows(home: Home, scratch: Home, settings: Settings, name: str, rows: KeyRange) -> None:
    """Add the rows of a key range of a table of a home to a scratch home, in which batches run that must not change it.

    Files with no other rows are named by their addresses, and only others are copied in part. So a scratch home of a
    large home is small, and a home in a bucket is read in place.
    """
    files = rows.files(list_data_files(home, name))
    whole = [file for file in files if _is_within(file, rows)]
    add_references(scratch, name, home, whole)
    cut = addresses_and_rows(home, name, (file for file in files if not _is_within(file, rows)))
    slices = [Slice(path, 0, count) for path, count in cut]
    copied = get_engine(settings, home).run_tasks(slices, partial(_copy_rows, scratch.table(name), name, rows))
    last = last_transaction(scratch.table(name), "scratch")
    commit_files(scratch, name, filter(None, copied), application="scratch", transaction=last + 1)


def _is_within(file: DataFile, rows: KeyRange) -> bool:
    least, greatest = file.low.get(rows.column), file.high.get(rows.column)
    return least is not None and greatest is not None and least > rows.after and greatest <= rows.up_to


def _copy_rows(root: str, name: str, rows: KeyRange, file: Slice) -> DataFile | None:
    writer = FileWriter(root, TABLES[name].schema)
    for part in read_slices([file], writer.schema.names, rows):
        writer.write(part)
    return writer.close()


def measure_index_memory(home: Home, settings: Settings, plan: PartitionPlan, version: int) -> tuple[int, np.ndarray]:
    """Return the bytes of the index of a plan version; the segments are mapped, and built where they are not yet.

    Returns those of the dispatcher, which are the arrays of the plan and the Bloom filter of live terms (the map H2 of
    the paper), and those of the segments of each worker, float64[workers].
    """
    segments = index_files(home, version).segments
    cache = segment_cache(settings.cache_dir, settings.cache_bytes)
    workers = np.zeros(plan.workers)
    for segment in segments:
        workers[segment.worker] += cache.segment(segment.paths).nbytes
    live_terms = LiveTermFilter()
    live_terms.update(frozenset(segment.paths for segment in segments), cache)
    return make_dispatch(plan).nbytes + live_terms.arrays().words.nbytes, workers


@contextmanager
def scratch_place(
    home: Home, settings: Settings, parent: Path | None, cache: str = ""
) -> Iterator[tuple[str, Settings]]:
    """Yield a new folder or address for a scratch home, and the settings for it; remove what is there afterwards.

    Tasks on other machines do not see this disk: then it is in the home. Else it is a folder below `parent` (None: that
    of temporary files), and so is the cache, unless `cache` is one. Nothing is evicted from it: an evicted segment
    would be built again in a measured batch.
    """
    if runs_elsewhere(settings):
        with scratch_folder(home) as address:
            yield address, settings
        return
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield folder, replace(settings, cache_dir=cache or f"{folder}/cache", cache_bytes=names.MAX_INT64)


class Trial:
    """One planner's plan and index of a home's requests, and the measured batch that matches the newest objects.

    loads          rows of `unit_loads` of the workers for the measured batch
    build_seconds  CPU seconds to build the segments of the index that was there before the batch
    rounds         float64[workers] for each time that the batch was matched again: CPU seconds of each worker

    A scratch home gets the newest objects and all requests of the log. Requests before the first of these objects are
    indexed first; the measured batch has the objects and the later requests. So the batch finds an index, as in a
    running stream.
    """

    def __init__(self, home: Home, settings: Settings, planner: str, objects: int, place: str) -> None:
        """Plan, index and match about `objects` objects; place: address of the scratch home, never used before."""
        self.planner = planner
        self.scratch = Home(place)
        self.scratch.init()
        options = settings.planner_options if planner == settings.planner else ""
        self.settings = replace(settings, planner=planner, planner_options=options)
        earlier, measured = _add_logs(home, self.scratch, self.settings, objects)
        began = time.perf_counter()
        with self.scratch.locked():
            new_plan(self.scratch, self.settings)
        self.planned = time.perf_counter() - began
        (self.plan_row,), self.plan = read_plan_rows(self.scratch), load_plan(self.scratch, 1)
        self.build_seconds = 0.0
        if earlier:
            ledger_tables.append(self.scratch, names.FILES, earlier)
            match(self.scratch, self.settings)
            reports = match_and_discard(self.scratch, self.settings, 1, slice(1))  # builds the segments of the index
            self.build_seconds = sum(one.index_seconds + sum(one.built_seconds.values()) for one in reports)
        stored = self._stored_rows()
        ledger_tables.append(self.scratch, names.FILES, measured)
        match(self.scratch, self.settings, max_objects=1 << 40)
        self.batch = read_batches(self.scratch)[-1]
        of_workers = (pds.field("batch_id") == self.batch["batch_id"]) & (pds.field("unit") == names.WHOLE_WORKER)
        self.loads = read_table(self.scratch.table(names.UNIT_LOADS), filter=of_workers).sort_by("worker")
        self._inserted_rows = self._stored_rows() - stored
        self.rounds: list[np.ndarray] = []
        self.dispatch_bytes, self.worker_bytes = measure_index_memory(self.scratch, self.settings, self.plan, 1)

    def match_again(self) -> None:
        """Match the objects of the batch once more against the same index, and measure; the matches are discarded."""
        seconds = np.zeros(self.settings.workers)
        for report in match_and_discard(self.scratch, self.settings, 1, slice(None)):
            seconds[report.worker] = report.cpu_seconds + report.index_seconds
        self.rounds.append(seconds)

    @property
    def made(self) -> tuple[str, tuple[float, ...]]:
        """The planner that made the plan, of `auto` the one that it chose, and the predicted load of each worker.

        Two trials in which both are the same have the same plan.
        """
        return planner_of(self.planner, self.plan.options), tuple(self.plan_row["worker_loads"])

    def worker_seconds(self) -> np.ndarray:
        """Return the CPU seconds of each worker: float64[workers], 0 for a worker without objects.

        If the batch was matched again, the least seconds of each worker count, plus the seconds that the batch took to
        build segments of its requests, split by the rows that each worker stores of them.
        """
        if not self.rounds:
            seconds = np.zeros(self.settings.workers)
            seconds[self.loads.column("worker").to_numpy()] = self.loads.column("cpu_seconds").to_numpy()
            return seconds
        built = dict(self.batch["seconds_by_step"])["index_cpu"]
        share = self._inserted_rows / max(float(self._inserted_rows.sum()), 1.0)
        least: np.ndarray = np.min(self.rounds, axis=0) + built * share
        return least

    def figures(self) -> dict[str, Any]:
        """Return what `pststream plans compare --json` prints of a plan.

        Loads are CPU seconds, measured and as the model predicted them (`model_*`). throughput: tuples over the seconds
        of the slowest worker. copies: workers that received an object, on average over the objects not discarded.
        dispatch_bytes: plan and filter of live terms; worker_bytes: segments of a worker, on average. made_by: the
        planner, of `auto` the one that it chose.
        """
        batch, measured, predicted = self.batch, self.worker_seconds(), np.array(self.plan_row["worker_loads"])
        tuples = batch["objects"] + batch["requests"]
        kept = batch["objects"] - batch["discarded"]
        sent = sum_column(self.loads, "objects")
        return {
            "planner": self.planner,
            "made_by": self.made[0],
            "units": self.plan.units,
            "seconds": round(self.planned, 2),
            "objects": batch["objects"],
            "requests": batch["requests"],
            "matches": batch["matches"],
            "throughput": round(tuples / max(measured.max(), 1e-9)),
            "load_total": round(float(measured.sum()), 3),
            "max_seconds": round(float(measured.max()), 3),
            "imbalance": finite_imbalance(imbalance_of(measured), 3),
            "worker_seconds": [round(float(s), 4) for s in measured],
            "objects_sent": sent,
            "copies": round(sent / kept, 3) if kept else 0.0,
            "subscriptions_stored": sum_column(self.loads, "subscriptions"),
            "discarded": batch["discarded"],
            "dispatch_seconds": dict(batch["seconds_by_step"])["dispatch_cpu"],
            "dispatch_bytes": self.dispatch_bytes,
            "worker_bytes": round(float(self.worker_bytes.mean())),
            "model_total": round(float(predicted.sum()), 3),
            "model_max": round(float(predicted.max()), 3),
            "model_seconds": [round(float(s), 4) for s in predicted],
            "model_imbalance": finite_imbalance(imbalance_of(predicted), 3),
            "model_correlation": correlation(predicted, measured),
        }

    def _stored_rows(self) -> np.ndarray:
        """Return the number of index rows of each worker: float64[workers]."""
        rows = np.zeros(self.settings.workers)
        for file in index_files(self.scratch, 1):
            if file.worker != names.EVERY_WORKER:
                rows[file.worker] += file.rows
        return rows


def share_rounds(trials: Iterable[tuple[Hashable, list[np.ndarray]]]) -> None:
    """Count the rounds of trials that have the same plan for each of them: `auto` and the planner that it chose.

    trials  of each what made its plan, equal for equal plans, and its rounds, a list to which those of others are added
    """
    listed, of_plan = list(trials), defaultdict[Hashable, list[np.ndarray]](list)
    for made, rounds in listed:
        of_plan[made] += rounds
    for made, rounds in listed:
        rounds[:] = of_plan[made]


def correlation(predicted: np.ndarray, measured: np.ndarray) -> float | None:
    """Return Pearson's correlation over workers; None if either does not vary."""
    if len(measured) < 2 or predicted.std() == 0 or measured.std() == 0:
        return None
    return round(float(np.corrcoef(predicted, measured)[0, 1]), 3)


def done_files(home: Home) -> list[dict[str, Any]]:
    """Return the ledger rows of the files whose ingest is done."""
    return [dict(file) for file in read_files(home) if file["status"] == "done"]


def _add_logs(
    home: Home, scratch: Home, settings: Settings, objects: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Add both logs to the scratch home: all requests, and the objects of the newest files until there are enough.

    Returns ledger rows: of the request files before the first of these files of objects, and of all other files.
    """
    done, newest = done_files(home), list[dict[str, Any]]()
    for file in reversed([file for file in done if file["kind"] == "objects"]):
        if sum(f["accepted"] for f in newest) < objects:
            newest.append(file)
    first = min(f["file_seq"] for f in newest)
    add_rows(home, scratch, settings, names.OBJECTS, KeyRange("object_key", log_key(first, 0) - 1, names.MAX_INT64))
    add_rows(home, scratch, settings, names.REQUESTS, KeyRange("request_key", BEFORE_ALL, names.MAX_INT64))
    requests = [file for file in done if file["kind"] == "requests"]
    later = [file for file in requests if file["file_seq"] >= first]
    return [file for file in requests if file["file_seq"] < first], newest + later


def compare(
    home: Home,
    settings: Settings,
    planners: Sequence[str] | None = None,
    objects: int = 1_000_000,
    rounds: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Plan and match with each planner (None: all installed ones), on about `objects` of the newest, in whole files.

    In each of `rounds` rounds the objects are matched once more under every plan in turn, and the least seconds of each
    worker count: on a shared machine the load of others comes and goes, and must not fall on one planner alone. `auto`
    and the planner that it chose have one plan, so the rounds of both count for both: the same index in another place
    in memory can take a tenth more time. With rounds the indexes of all planners are on disk at the same time,
    otherwise one at a time.

    Returns {"plans": [figures of each, the best throughput first], "objects", "requests", "matches", "workers"}.
    Raises UsageError for a home without objects or requests, MissingExtra for a planner whose package is not installed,
    PstError if two planners do not find the same matches.
    """
    home.check()
    with home.locked():
        if {file["kind"] for file in done_files(home)} != {"objects", "requests"}:
            raise UsageError(f"home {home.path} has no objects or no requests", "ingest some first")
        for planner in planners or ():
            load_planner(planner)
        chosen = planners or installed_planners(progress)
        root = home.work_folder / "compare"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        try:
            figures = _run_trials(home, settings, chosen, objects, rounds, root, progress)
        finally:
            shutil.rmtree(root, ignore_errors=True)
    matches = {f["planner"]: f["matches"] for f in figures}
    if len(set(matches.values())) > 1:
        raise PstError(f"planners found different numbers of matches: {matches}", "please report this: it is a bug")
    return {
        "workers": settings.workers,
        **{name: figures[0][name] for name in ("objects", "requests", "matches")},
        "plans": sorted(figures, key=lambda f: -f["throughput"]),
    }


def _run_trials(
    home: Home, settings: Settings, planners: Sequence[str], objects: int, rounds: int, root: Path, progress: Progress
) -> list[dict[str, Any]]:
    """Return the figures of each planner; root: folder for scratch homes."""
    progress("warming up")
    # Python workers keep plans and segments by the paths of their homes, so each trial has a new path.
    with scratch_place(home, settings, root) as (place, chosen):
        Trial(home, chosen, planners[0], objects, f"{place}/home")
    with ExitStack() as stack:
        trials, cache = [], f"{root}/cache" if rounds else ""
        for number, planner in enumerate(planners, 1):
            progress(f"planner {number} of {len(planners)}: planning and matching with {planner}")
            with ExitStack() as own:
                place, chosen = (stack if rounds else own).enter_context(scratch_place(home, settings, root, cache))
                trials.append(Trial(home, chosen, planner, objects, f"{place}/home"))
        for number in range(1, rounds + 1):
            progress(f"round {number} of {rounds}")
            for trial in trials:
                trial.match_again()
    share_rounds((trial.made, trial.rounds) for trial in trials)
    return [trial.figures() for trial in trials]


def compare_topk(
    home: Home, settings: Settings, planners: Sequence[str] | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """Compare the planners of `topk` (None: all), `hash` too, for `settings.workers`; the planner of the plan in force
    has the options of that plan.

    Each planner plans the same sample of subscriptions, with their thresholds, and of stored objects. Then the units
    search these objects, one unit after the other, and their CPU seconds are measured. Nothing in the home changes.

    Returns {"kinds": ["topk"], "plans": [figures of each, the best throughput first], "objects", "subscriptions",
    "workers"}. Figures are those of `MeasuredPlan`, "planner", "model_imbalance", "model_correlation" (of
    predicted loads with measured seconds, over units), both of each unit in "unit_loads" and "unit_seconds", and
    "plan_seconds".

    Raises UsageError if no such subscription has an answer yet, PstError if two planners find other pairs.
    """
    home.check()
    with home.locked():
        drawn = draw_topk_sample(home, settings, progress)
        options = dict([topk_planner_of(home, current_version(home))])
    figures, sample = [], drawn.sample
    for planner in planners or names.TOPK_PLANNERS:
        progress(f"planning and searching: {planner}")
        figures.append(_measure(drawn, sample, planner, settings.workers, options.get(planner, "")))
    pairs = {one["planner"]: one["pairs"] for one in figures}
    if len(set(pairs.values())) > 1:
        raise PstError(f"planners find different numbers of pairs: {pairs}", "please report this: it is a bug")
    return {
        "kinds": ["topk"],
        "plans": sorted(figures, key=lambda one: -one["throughput"]),
        "objects": len(drawn.messages.key),
        "subscriptions": len(drawn.subscriptions.key),
        "workers": settings.workers,
    }


def _measure(drawn: DrawnTopk, sample: TopkSample, planner: str, workers: int, options: str) -> dict[str, Any]:
    began = time.process_time()
    plan = make_topk_plan(planner, sample, workers, read_planner_options(options))
    seconds = time.process_time() - began
    measured, loads = measure_plan(drawn.subscriptions, drawn.messages, plan), count_loads(sample, plan)
    unit_seconds = np.array([unit.seconds for unit in measured.units])
    figures = measured.figures(len(drawn.subscriptions.key), len(drawn.messages.key))
    return {
        "planner": planner,
        **figures,
        "imbalance": finite_imbalance(figures["imbalance"], 2),
        "model_imbalance": finite_imbalance(loads.imbalance, 2),
        "model_correlation": correlation(loads.load, unit_seconds),
        "unit_loads": loads.load.tolist(),
        "unit_seconds": unit_seconds.tolist(),
        "plan_seconds": round(seconds, 3),
    }
