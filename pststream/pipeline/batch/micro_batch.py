"""Micro-batches: a range of the logs, matched as one transaction.

A batch is first written to the ledger (`started`: its ranges, plan and table versions), then done, then written again
(`done`). A batch that was left unfinished is finished first, with the ranges it was given; each table takes each
batch's rows once. So any step may be killed and run again.
"""

import json
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from pststream import lineage, names
from pststream.pipeline.batch.match_tasks import LATE, NEW, Report, Scan, UnitCounts, match_worker, route
from pststream.pipeline.batch.retract import retract
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.engine.task_context import TaskContext, make_task_context
from pststream.pipeline.index.build_index import apply_requests
from pststream.pipeline.index.compact_index import merge_small_files
from pststream.pipeline.planning.plan import new_plan
from pststream.progress import LogMessage, Progress, no_progress
from pststream.reports.reading.ledgers import step_seconds
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import commit, data_files, located
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.ledger import Ledger
from pststream.state.plans import current_version
from pststream.state.slices import KeyRange, tasks_of

COMPACT_EVERY = 8
"""The small files of the ledgers are joined after so many batches."""


@dataclass
class Clock:
    """Seconds of each step."""

    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=time.perf_counter)

    def lap(self, step: str) -> None:
        """Book the time since the last lap to `step`."""
        now = time.perf_counter()
        self.seconds[step] = round(self.seconds.get(step, 0.0) + now - self._since, 3)
        self._since = now


def match(
    home: Home,
    settings: Settings,
    *,
    max_objects: int | None = None,
    one: bool = False,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Run micro-batches until nothing is pending (or one, with `one`).

    Returns {"batches": [as `summary` has them], "objects", "matches"}, what `pststream match --json` prints.
    """
    home.check()
    batches: list[dict[str, Any]] = []
    with home.locked():
        while (pending := _next_batch(home, settings, max_objects or settings.max_objects)) is not None:
            batch, ledger = pending
            text = f"objects {batch['objects_after']}..{batch['objects_to']}"
            text += f", requests {batch['requests_after']}..{batch['requests_to']}, plan {batch['plan_version']}"
            progress(_note(batch, text))
            with lineage.run(home.path, "match", batch["batch_id"], *_lineage(home)) as told:
                done = run_batch(home, settings, batch, ledger)
                told.update(summary(done))
            batches.append(summary(done))
            progress(_note(done, f"{done['objects']} objects, {done['matches']} matches, {done['seconds']}"))
            if one:
                break
    return {
        "batches": batches,
        "objects": sum(b["objects"] for b in batches),
        "matches": sum(b["matches"] for b in batches),
    }


def _lineage(home: Home) -> tuple[list[str], list[str]]:
    """The tables that a batch reads, and those that it writes."""
    reads = (names.OBJECTS, names.REQUESTS, names.PLANS, names.PLAN_UNITS, names.WORKER_INDEX)
    writes = (names.WORKER_INDEX, names.MATCHES, names.UNIT_LOADS)
    return [home.table(name) for name in reads], [home.table(name) for name in writes]


def _note(batch: dict[str, Any], text: str) -> LogMessage:
    return LogMessage(f"batch {batch['batch_id']}: {text}", step="match", batch_id=batch["batch_id"])


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """A batch of the ledger as commands print it: {"batch_id", "plan_version", "objects", "discarded", "requests",
    "matches", "retractions", "seconds": {step: seconds}}.
    """
    kept = ("batch_id", "plan_version", "objects", "discarded", "requests", "matches", "retractions")
    return {**{name: row[name] for name in kept}, "seconds": step_seconds(row["seconds"])}


def _next_batch(home: Home, settings: Settings, max_objects: int) -> tuple[dict[str, Any], Ledger] | None:
    """The batch that was left unfinished, else a new one over what is pending, written to the ledger; and the ledger as
    it was before. None: nothing.
    """
    ledger = Ledger(home)
    unfinished = ledger.unfinished_batch()
    if unfinished is not None:
        return unfinished, ledger
    pending = ledger.pending(max_objects)
    if pending.empty:
        return None
    if current_version(home) == 0:
        new_plan(home, settings)
    batch = {
        "batch_id": ledger.next_batch_id,
        "status": "started",
        "plan_version": current_version(home),
        "objects_after": pending.objects_after,
        "objects_to": pending.objects_to,
        "requests_after": pending.requests_after,
        "requests_to": pending.requests_to,
        "objects_version": ledger_tables.version(home, names.OBJECTS),
        "requests_version": ledger_tables.version(home, names.REQUESTS),
        "started_at": ledger_tables.now(),
    }
    ledger_tables.append(home, names.BATCHES, [batch])
    crash_point("match.started")
    return batch, ledger


def run_batch(home: Home, settings: Settings, batch: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Do a batch that stands in the ledger (`ledger`: as it was before); every step may have been done before."""
    clock = Clock()
    get_engine(settings)
    clock.lap("session")
    work = make_task_context(home, settings, batch["plan_version"], batch["batch_id"])
    if batch["requests_to"] > batch["requests_after"]:
        apply_requests(home, work, batch["requests_after"], batch["requests_to"], settings)
        merge_small_files(home, settings, work.plan_version, batch["batch_id"])
    clock.lap("index")
    crash_point("match.indexed")
    work = replace(work, files=tuple(index_files(home, batch["plan_version"])))
    reports = matched(home, settings, work, _scans(home, batch, ledger), batch["requests_after"])
    for report in reports:
        report.index_seconds += sum(told.built_seconds.get(report.worker, 0.0) for told in reports)
    clock.lap("match")
    taken_back, retractions = retract(home, settings, work, ledger.max_matched_ts(batch["objects_after"]))
    clock.lap("retract")
    files = [file for report in reports for file in report.files] + taken_back
    commit(home, names.MATCHES, files, application="match", transaction=batch["batch_id"])
    crash_point("match.matched")
    _save_loads(home, batch, reports)
    clock.lap("save")
    crash_point("match.loads_written")
    clock.seconds["dispatch_cpu"] = round(sum(report.dispatch_seconds for report in reports), 3)
    clock.seconds["index_cpu"] = round(sum(report.index_seconds for report in reports), 3)
    counts = {
        "objects": sum(report.seen for report in reports),
        "discarded": sum(report.discarded for report in reports),
        "requests": ledger.accepted_requests(batch["requests_after"], batch["requests_to"]),
        "matches": sum(report.tally.matches for report in reports),
        "retractions": retractions,
    }
    done = {
        **batch,
        **counts,
        "status": "done",
        "seconds": json.dumps(clock.seconds),
        "finished_at": ledger_tables.now(),
    }
    ledger_tables.append(home, names.BATCHES, [done])
    crash_point("match.done")
    if batch["batch_id"] % COMPACT_EVERY == 0:
        for name in (names.FILES, names.BATCHES, names.UNIT_LOADS):
            ledger_tables.compact(home, name)
    return done


def _scans(home: Home, batch: dict[str, Any], ledger: Ledger) -> list[Scan]:
    """The batch's objects, and the stored ones that its late subscriptions may match."""
    files = data_files(home, names.OBJECTS)
    new = KeyRange("object_key", batch["objects_after"], batch["objects_to"])
    scans = [Scan(slices, new, NEW) for slices in tasks_of(located(home, names.OBJECTS, new.files(files)))]
    first = ledger.min_request_time(batch["requests_after"], batch["requests_to"])
    last = ledger.max_matched_ts(batch["objects_after"])
    if first is None or last is None or first > last:
        return scans
    since = ledger_tables.micros_of(first)
    stored = KeyRange("object_key", -1, batch["objects_after"])
    old = [file for file in stored.files(files) if file.may_hold("ts", since, names.NEVER_US)]
    return scans + [Scan(slices, stored, LATE, since) for slices in tasks_of(located(home, names.OBJECTS, old))]


def matched(home: Home, settings: Settings, work: TaskContext, scans: list[Scan], after_key: int) -> list[Report]:
    """Route the objects, send them to their workers in one shuffle, match them there; a report a worker."""
    return get_engine(settings).run_shuffled(
        scans,
        partial(route, work, after_key),
        work.workers,
        partial(match_worker, work, after_key),
    )


def _save_loads(home: Home, batch: dict[str, Any], reports: list[Report]) -> None:
    """Write `unit_loads` unless a try that died later has."""
    done = ledger_tables.read(home, names.UNIT_LOADS, ["batch_id"], [("batch_id", "=", batch["batch_id"])])
    if done.num_rows == 0 and reports:
        ledger_tables.append(home, names.UNIT_LOADS, pa.concat_tables(_loads(batch, report) for report in reports))


def _loads(batch: dict[str, Any], report: Report) -> pa.Table:
    """Rows of `unit_loads` of a worker: the worker as a whole (unit -1), and each plan's units that saw objects."""
    tally = report.tally
    whole = {
        "plan_version": batch["plan_version"],
        "unit": -1,
        "objects": tally.objects,
        "subscriptions": report.subscriptions,
        "candidates": sum(int(counts.candidates.sum()) for counts in tally.units),
        "matches": tally.matches,
        "cpu_seconds": tally.cpu_seconds + report.index_seconds,
    }
    rows = pa.concat_tables([pa.Table.from_pylist([whole]), *map(_unit_loads, tally.units)])
    for name, value in (("batch_id", batch["batch_id"]), ("worker", report.worker)):
        rows = rows.append_column(name, pa.array(np.full(rows.num_rows, value)))
    return rows


def _unit_loads(counts: UnitCounts) -> pa.Table:
    units = np.flatnonzero(counts.objects)
    columns = {
        "plan_version": np.full(len(units), counts.plan_version),
        "unit": units,
        "objects": counts.objects[units],
        "subscriptions": np.zeros(len(units), np.int64),
        "candidates": counts.candidates[units],
        "matches": counts.matches[units],
        "cpu_seconds": np.zeros(len(units)),
    }
    return pa.table(columns)
