"""Benchmark what the driver does for a batch in a home of many workers, files and batches: seconds, bytes, commits.

The tables are made up: their logs list files that do not exist. So each step is measured that reads no rows of them.
"""

import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from pickle import dumps
from typing import Any

import numpy as np

from benchmarks.support.targets import at_most
from pststream.base import names
from pststream.base.progress import Progress
from pststream.base.utc_times import from_micros, utc_now
from pststream.engine.spark_engine import MAX_CLOSURE_BYTES, SparkEngine
from pststream.engine.spark_session import EngineSession
from pststream.engine.task_context import make_task_context
from pststream.pipeline.batch.match_task import match_workers
from pststream.pipeline.batch.retract import write_retractions
from pststream.pipeline.batch.route_task import NEW_OBJECTS, ObjectScan, route_objects
from pststream.pipeline.batch.worker_parts import worker_parts
from pststream.pipeline.index.compact_index import compact_small_files
from pststream.pipeline.index.stored_pieces import has_standing_queries
from pststream.plans.plan import DispatchGrid, space_plan
from pststream.reports.commands.status import read_status
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, addresses_and_rows, commit_files, list_data_files
from pststream.state.delta_log import write_checkpoint
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.plans import save_plan, save_units
from pststream.state.slices import SLICE_ROWS, KeyRange, split_into_tasks
from pststream.tables.delta_tables import table_version
from pststream.tables.ledgers import Ledger
from pststream.tables.log_events import NONE

SIZES = {"small": (400, 20_000, 160, 40), "full": (10_000, 500_000, 4_000, 1_000)}
"""Workers, files of the index and as many of the matches, tasks that route the batch, batches before it."""

TASKS_PER_CORE = 2
SECONDS = 2.0
TASK_BYTES = 2_000
TIMES = {"min": "2026-01-01T00:00:00.000Z", "max": "2026-01-02T00:00:00.000Z"}


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure each step of the driver, and the bytes of its tasks. Targets are CPU seconds: machines may be busy."""
    workers, files, tasks, batches = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        home = Home(f"{folder}/home")
        home.init()
        progress(f"listing {2 * files:,} files")
        _make_tables(home, workers, files, tasks, batches)
        progress("measuring")
        figures = _measure(home, replace(settings, engine="local"), workers, tasks, batches)
    sizes = {"workers": workers, "files": files, "tasks": tasks, "batches": batches}
    targets = {name: at_most(figures[name], SECONDS) for name in figures if name.endswith("_cpu_seconds")}
    targets["closure_bytes"] = at_most(figures["closure_bytes"], MAX_CLOSURE_BYTES)
    targets["greatest_task_bytes"] = at_most(figures["greatest_task_bytes"], TASK_BYTES)
    return {"figures": sizes | figures, "floor": {}, "targets": targets}


def _measure(home: Home, settings: Settings, workers: int, tasks: int, batches: int) -> dict[str, Any]:
    """Take the steps of a batch in their order; return their figures."""
    figures: dict[str, Any] = {}
    measured, batch, cores = partial(_measured, figures), batches + 1, tasks // TASKS_PER_CORE
    keys = KeyRange("object_key", tasks * SLICE_ROWS - 1, 2 * tasks * SLICE_ROWS - 1)
    with measured("open_tables"):  # once in a process
        for name in (names.WORKER_INDEX, names.OBJECTS, names.MATCHES):
            table_version(home.table(name))
    with measured("read_ledger"):
        ledger = Ledger(home)
    added = _write_empty(home, names.WORKER_INDEX, [(batch, worker) for worker in range(workers)])
    with measured("commit_index"):
        commit_files(home, names.WORKER_INDEX, added, application="index-1", transaction=batch)
    with measured("look_for_compaction"):
        has_standing_queries(home)
        compact_small_files(home, replace(settings, merge_files=1_000), 1, batch)
    with measured("list_index"):
        context = replace(make_task_context(home, settings, 1, batch), files=index_files(home, 1))
    with measured("make_tasks"):
        new = keys.files(list_data_files(home, names.OBJECTS))
        slices = split_into_tasks(addresses_and_rows(home, names.OBJECTS, new))
        scans = [ObjectScan(one, keys, NEW_OBJECTS) for one in slices]
        parts = worker_parts(home, 1, workers, tasks * SLICE_ROWS, cores)
    with measured("pickle_tasks"):
        sizes = [len(dumps(scan)) for scan in scans]
    functions: list[Callable[..., Any]] = [
        partial(route_objects, context, 1, parts),
        partial(match_workers, context, 1),
    ]
    engine = SparkEngine(EngineSession("", False, cores), home)
    with measured("send_functions"), engine.sent(functions) as sent:
        figures["closure_bytes"] = len(dumps(sent))
    figures |= {"functions_bytes": len(dumps(functions)), "scans": len(scans), "matching_tasks": parts.tasks}
    figures |= {"greatest_task_bytes": max(sizes), "all_task_bytes": sum(sizes)}
    with measured("retract"):  # no object came after the deletions
        write_retractions(home, settings, context, ledger.max_matched_ts(names.MAX_INT64) or from_micros(0), NONE)
    written = _write_empty(home, names.MATCHES, [(batch, -1)] * parts.tasks)
    with measured("commit_matches"):
        commit_files(home, names.MATCHES, written, application="match", transaction=batch)
    with measured("status"):
        read_status(home)
    commits = [table_version(home.table(name)) for name in (names.WORKER_INDEX, names.MATCHES)]
    return figures | {"commits": sum(commits) - 2}  # the first entries made the tables


@contextmanager
def _measured(figures: dict[str, Any], step: str) -> Iterator[None]:
    began, cpu = time.perf_counter(), time.process_time()
    yield
    figures[f"{step}_seconds"] = round(time.perf_counter() - began, 2)
    figures[f"{step}_cpu_seconds"] = round(time.process_time() - cpu, 2)


def _make_tables(home: Home, workers: int, files: int, tasks: int, batches: int) -> None:
    grid = DispatchGrid(-180.0, -90.0, 180.0, 90.0, 256, 256)
    plan = space_plan("grid", grid, np.arange(grid.cells) % workers, np.arange(workers), workers)
    loads = {"load_total": 1.0, "load_max": 1.0, "load_min": 1.0, "imbalance": 1.0, "worker_loads": [1.0] * workers}
    save_units(home, 1, plan, dict.fromkeys(("load", "objects", "subscriptions"), np.ones(workers)))
    save_plan(home, 1, plan, {**loads, "options": {}, "seconds": 0.0})
    done = {"status": "done", "plan_version": 1, "started_at": utc_now(), "finished_at": utc_now(), "removals": 0}
    done |= dict.fromkeys(("objects", "discarded", "requests", "matches", "retractions"), 1)
    done |= dict.fromkeys(("requests_after", "requests_to", "objects_version", "requests_version"), 0)
    rows = [{**done, "batch_id": batch, "objects_after": batch - 1, "objects_to": batch} for batch in range(1, batches)]
    last = {**done, "batch_id": batches, "objects_after": batches - 1, "objects_to": tasks * SLICE_ROWS - 1}
    ledger_tables.append(home, names.BATCHES, [*rows, last])
    index = ((f"{number // workers % batches}", number % workers) for number in range(files))
    _list(home, names.WORKER_INDEX, (_index_entry(int(batch), worker) for batch, worker in index))
    _list(home, names.MATCHES, (_entry("", {}, {"batch_id": n % batches, "object_key": n}) for n in range(files)))
    objects = ({"object_key": (number * SLICE_ROWS, (number + 1) * SLICE_ROWS - 1)} for number in range(2 * tasks))
    _list(home, names.OBJECTS, (_entry("", {}, bounds, SLICE_ROWS) for bounds in objects))


def _list(home: Home, name: str, entries: Iterable[str]) -> None:
    """Add files to the log of a table, and write a checkpoint."""
    home.files.create(f"tables/{name}/{names.DELTA_LOG}/{1:020}.json", "".join(entries).encode())
    write_checkpoint(home.table(name))


def _index_entry(batch: int, worker: int) -> str:
    partition = {"index_version": 1, "worker": worker}
    return _entry(_folder(worker), partition, {"batch_id": batch, "subscription_key": batch})


def _folder(worker: int) -> str:
    return f"index_version=1/worker={worker}/"


def _entry(
    folder: str, partition: Mapping[str, int], bounds: Mapping[str, int | tuple[int, int]], rows: int = 100
) -> str:
    """Return the line that adds a file; bounds: of columns, the least and the greatest value, or both in one."""
    ends = {name: value if isinstance(value, tuple) else (value, value) for name, value in bounds.items()}
    stats = {"numRecords": rows, "nullCount": dict.fromkeys(bounds, 0)}
    for place, kind in enumerate(("min", "max")):
        values: dict[str, Any] = {name: both[place] for name, both in ends.items()}
        stats[f"{kind}Values"] = values if folder else values | {"ts": TIMES[kind]}
    add = {
        "path": f"{folder}part-{uuid.uuid4().hex}.parquet", "size": 20_000, "modificationTime": 0, "dataChange": True,
        "partitionValues": {name: str(value) for name, value in partition.items()}, "stats": json.dumps(stats),
    }  # fmt: skip
    return json.dumps({"add": add}) + "\n"


def _write_empty(home: Home, name: str, files: Iterable[tuple[int, int]]) -> list[DataFile]:
    """Create files without content, by batch and worker (-1: of a table without partitions)."""
    written = []
    for batch, worker in files:
        folder, partition = ("", {}) if worker < 0 else (_folder(worker), {"index_version": 1, "worker": worker})
        path = Path(home.table(name), folder, f"part-{uuid.uuid4().hex}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        bounds = {"batch_id": batch, "subscription_key": batch}
        written.append(DataFile(f"{folder}{path.name}", 0, 100, partition, bounds, bounds))
    return written
