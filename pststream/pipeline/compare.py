"""Which planner is best for a home: each plans the same sample, and the real job runs under its plan.

Nothing in the home changes: each planner gets a scratch home with the newest objects and all requests of the log, its
data files linked, not copied; its index is built there, and the objects are matched by the same jobs as ever. So the
figures are measured, and the model is judged by them. What is measured is the micro-batch of these objects and of the
requests that came after the first of them; the index of the earlier requests is there before, as in a stream that runs.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.domain.plan import PartitionPlan
from pststream.errors import PstError, UsageError
from pststream.pipeline.executor import work_of
from pststream.pipeline.match import match, matched
from pststream.pipeline.match_tasks import NEW, Report, Scan
from pststream.pipeline.plan import new_plan
from pststream.routing.dispatch import DispatchIndex
from pststream.settings import Settings
from pststream.state import control
from pststream.state.data_files import commit, data_files, located
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.ledger import batches_between, files_where, key
from pststream.state.plans import load_plan, plan_rows
from pststream.state.slices import Range, tasks_of
from pststream.storage.addresses import in_bucket

Progress = Callable[[str], None]


def compare(
    home: Home,
    settings: Settings,
    planners: Sequence[str] = names.PLANNERS,
    objects: int = 1_000_000,
    rounds: int = 0,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Plan and match with each planner; `objects`: about so many of the newest, in whole files.

    Under each plan the objects are matched `rounds` times more, and of the seconds of a worker the least count: on a
    machine that others use too, what comes on top for a moment is theirs. What the batch took to build segments of the
    requests in it counts besides, once, for each worker by what it stores of them.
    Returns {"plans": [figures of each, the best throughput first], "objects", "requests", "matches", "workers"}.
    Raises UsageError for a home without objects or requests, PstError if two planners do not find the same matches.
    """
    home.check()
    if in_bucket(home.path):
        raise UsageError(
            f"home {home.path}: planners are compared on a home in a folder", "give a backup of it, as --home"
        )
    with home.locked():
        if {file["kind"] for file in _done(home)} != {"objects", "requests"}:
            raise UsageError(f"home {home.path} holds no objects or no requests", "ingest some first")
        progress("warming up")
        _measured(home, settings, planners[0], objects, 0)
        figures = []
        for planner in planners:
            progress(f"{planner}: planning and matching")
            figures.append(_figures(planner, _measured(home, settings, planner, objects, rounds)))
    found = {f["planner"]: f["matches"] for f in figures}
    if len(set(found.values())) > 1:
        raise PstError(f"planners found different numbers of matches: {found}", "please report this: it is a fault")
    told = figures[0]
    return {
        "workers": settings.workers,
        **{name: told[name] for name in ("objects", "requests", "matches")},
        "plans": sorted(figures, key=lambda f: -f["throughput"]),
    }


@dataclass(frozen=True)
class _Run:
    """What one run under a planner's plan was.

    plan_row  of `plans`; planned  seconds to plan; batch  row of the ledger; loads  rows of `unit_loads` of the workers
    worker_seconds  float64[workers], CPU, the least of each over the rounds
    """

    plan: PartitionPlan
    plan_row: dict[str, Any]
    planned: float
    batch: dict[str, Any]
    loads: pa.Table
    worker_seconds: np.ndarray

    def count(self, name: str) -> int:
        """The sum of a column of the loads over workers."""
        return int(self.loads.column(name).to_numpy().sum())


def _measured(home: Home, settings: Settings, planner: str, objects: int, rounds: int) -> _Run:
    root = f"{home.path}/compare"
    shutil.rmtree(root, ignore_errors=True)
    Path(root).mkdir()
    # Python workers live on between planners, and know plans and segments by the paths of their homes.
    folder = tempfile.mkdtemp(dir=root)
    try:
        scratch = Home(f"{folder}/home")
        scratch.init()
        earlier, measured = _link_logs(home, scratch, objects)
        part = _inserted(measured) / max(_inserted(earlier + measured), 1)
        cost = {f"cost_{name}": part * getattr(settings, f"cost_{name}") for name in ("insert", "delete")}
        chosen = replace(settings, planner=planner, cache_dir=f"{folder}/cache", **cost)
        began = time.perf_counter()
        with scratch.locked():
            new_plan(scratch, chosen)
        planned = time.perf_counter() - began
        if earlier:
            control.append(scratch, names.FILES, earlier)
            match(scratch, chosen)
            _found_and_forgotten(scratch, chosen, slice(1))  # from then on the segments of the index are built
        stored = _stored(scratch, chosen)
        control.append(scratch, names.FILES, measured)
        match(scratch, chosen, max_objects=1 << 40)
        (row,), batch = plan_rows(scratch), batches_between(scratch)[-1]
        here = [("batch_id", "=", batch["batch_id"]), ("unit", "=", -1)]
        loads = control.read(scratch, names.UNIT_LOADS, filters=here).sort_by("worker")
        inserted = _stored(scratch, chosen) - stored
        again = [_found_and_forgotten(scratch, chosen, slice(None)) for _ in range(rounds)]
        seconds = _worker_seconds(chosen, loads, again, json.loads(batch["seconds"])["index_cpu"], inserted)
        return _Run(load_plan(scratch, 1), row, planned, batch, loads, seconds)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _worker_seconds(
    settings: Settings, loads: pa.Table, again: list[list[Report]], built: float, inserted: np.ndarray
) -> np.ndarray:
    """CPU seconds of each worker: float64[workers], 0 for a worker without objects.

    loads     as the batch was measured, which counts if it was not matched again
    built     seconds of all workers to build segments in the batch; inserted  float64[workers]: rows of them
    """
    if not again:
        found = np.zeros(settings.workers)
        found[loads.column("worker").to_numpy()] = loads.column("cpu_seconds").to_numpy()
        return found
    seconds = np.zeros((len(again), settings.workers))
    for number, reports in enumerate(again):
        for report in reports:
            seconds[number, report.worker] = report.tally.cpu_seconds + report.index_seconds
    least: np.ndarray = seconds.min(axis=0) + built * inserted / max(float(inserted.sum()), 1.0)
    return least


def _stored(scratch: Home, settings: Settings) -> np.ndarray:
    """Rows that the index has for each worker: float64[workers]."""
    rows = np.zeros(settings.workers)
    for file in index_files(scratch, 1):
        if file.worker != names.EVERY_WORKER:
            rows[file.worker] += file.rows
    return rows


def _found_and_forgotten(scratch: Home, settings: Settings, part: slice) -> list[Report]:
    """What the workers tell of matching the objects, or some tasks of them, against the index as it is."""
    work = replace(work_of(scratch, settings, 1), files=tuple(index_files(scratch, 1)))
    tasks = tasks_of(located(scratch, names.OBJECTS, data_files(scratch, names.OBJECTS)))[part]
    every = Range("object_key", -1, names.NEVER_US)
    return matched(scratch, settings, work, [Scan(slices, every, NEW) for slices in tasks], -1)


def _inserted(files: list[dict[str, Any]]) -> int:
    return sum(file["accepted"] for file in files if file["kind"] == "requests")


def _link_logs(home: Home, scratch: Home, objects: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Link both logs into the scratch home: all files of requests, and the newest of objects until there are enough.

    Returns the files as the ledger has them: those before the first objects, and from these on.
    """
    done, taken = _done(home), list[dict[str, Any]]()
    for file in reversed([file for file in done if file["kind"] == "objects"]):
        if sum(f["accepted"] for f in taken) < objects:
            taken.append(file)
    first = min(f["file_seq"] for f in taken)
    for name in (names.OBJECTS, names.REQUESTS):
        files = data_files(home, name)
        if name == names.OBJECTS:
            files = [f for f in files if f.may_hold("object_key", key(first, 0), names.NEVER_US)]
        for file in files:
            target = Path(scratch.table(name)) / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(f"{home.table(name)}/{file.path}", target)
        commit(scratch, name, files, application="compare", transaction=1)
    requests = [file for file in done if file["kind"] == "requests"]
    later = [file for file in requests if file["file_seq"] >= first]
    return [file for file in requests if file["file_seq"] < first], taken + later


def _done(home: Home) -> list[dict[str, Any]]:
    """The files of the log whose ingest is done."""
    return [file for file in files_where(home) if file["status"] == "done"]


def _figures(planner: str, run: _Run) -> dict[str, Any]:
    """What CONTRACT says, with loads in CPU seconds as measured; `copies` of an object that was not discarded."""
    batch, measured = run.batch, run.worker_seconds
    predicted = np.array(run.plan_row["worker_loads"])
    tuples = batch["objects"] + batch["requests"]
    kept = batch["objects"] - batch["discarded"]
    return {
        "planner": planner,
        "units": run.plan.units,
        "seconds": round(run.planned, 2),
        "objects": batch["objects"],
        "requests": batch["requests"],
        "matches": batch["matches"],
        "throughput": round(tuples / max(measured.max(), 1e-9)),
        "load_total": round(float(measured.sum()), 3),
        "max_seconds": round(float(measured.max()), 3),
        "imbalance": round(float(measured.max() / max(measured.min(), 1e-9)), 3),
        "worker_seconds": [round(float(s), 4) for s in measured],
        "objects_sent": run.count("objects"),
        "copies": round(run.count("objects") / kept, 3) if kept else 0.0,
        "subscriptions_stored": run.count("subscriptions"),
        "discarded": batch["discarded"],
        "dispatch_seconds": json.loads(batch["seconds"])["dispatch_cpu"],
        "dispatch_bytes": DispatchIndex(run.plan).nbytes,
        "model_total": round(float(predicted.sum()), 3),
        "model_max": round(float(predicted.max()), 3),
        "model_seconds": [round(float(s), 4) for s in predicted],
        "model_correlation": correlation(predicted, measured),
    }


def correlation(predicted: np.ndarray, measured: np.ndarray) -> float | None:
    """Pearson's, over workers; None where either does not vary."""
    if len(measured) < 2 or predicted.std() == 0 or measured.std() == 0:
        return None
    return round(float(np.corrcoef(predicted, measured)[0, 1]), 3)
