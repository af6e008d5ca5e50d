"""Micro-batches: a range of the logs, matched as one transaction.

A batch is first written to the ledger (`started`: its ranges, plan and table versions), then done, then written again
(`done`). A batch that was left unfinished is finished first, with the ranges it was given; each table takes each
batch's rows once. So any step may be killed and run again.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pststream import names
from pststream.pipeline.executor import Work
from pststream.pipeline.index import apply_requests, spark_schema
from pststream.pipeline.match_tasks import ROUTED, WorkerStats, match_task, route_task
from pststream.pipeline.merge import merge_small_files
from pststream.pipeline.plan import first_plan
from pststream.pipeline.retract import retractions
from pststream.settings import Settings
from pststream.state import control, delta
from pststream.state.crash import crash_point
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.ledger import Ledger
from pststream.state.plans import current_version, plan_rows
from pststream.state.session import get_session
from pststream.state.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Progress = Callable[[str], None]
MATCHES = TABLES[names.MATCHES].schema
LOAD_FIGURES = ("objects", "subscriptions", "candidates", "matches", "cpu_seconds")


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
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Run micro-batches until nothing is pending (or one, with `one`); returns what CONTRACT says `match` prints."""
    home.check()
    batches: list[dict[str, Any]] = []
    with home.locked():
        while (batch := _next_batch(home, settings, max_objects or settings.max_objects)) is not None:
            progress(
                f"batch {batch['batch_id']}: objects {batch['objects_after']}..{batch['objects_to']},"
                f" requests {batch['requests_after']}..{batch['requests_to']}, plan {batch['plan_version']}"
            )
            done = run_batch(home, settings, batch)
            batches.append(summary(done))
            progress(
                f"batch {done['batch_id']}: {done['objects']} objects, {done['matches']} matches, {done['seconds']}"
            )
            if one:
                break
    return {
        "batches": batches,
        "objects": sum(b["objects"] for b in batches),
        "matches": sum(b["matches"] for b in batches),
    }


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """A ledger row as commands print it."""
    kept = ("batch_id", "plan_version", "objects", "discarded", "requests", "matches", "retractions")
    return {**{name: row[name] for name in kept}, "seconds": json.loads(row["seconds"])}


def _next_batch(home: Home, settings: Settings, max_objects: int) -> dict[str, Any] | None:
    """The batch that was left unfinished, else a new one over what is pending, written to the ledger; None: nothing."""
    ledger = Ledger(home)
    unfinished = ledger.unfinished_batch()
    if unfinished is not None:
        return unfinished
    pending = ledger.pending(max_objects)
    if pending.empty:
        return None
    if current_version(home) == 0:
        first_plan(home, settings)
    batch = {
        "batch_id": ledger.next_batch_id,
        "status": "started",
        "plan_version": current_version(home),
        "objects_after": pending.objects_after,
        "objects_to": pending.objects_to,
        "requests_after": pending.requests_after,
        "requests_to": pending.requests_to,
        "objects_version": control.version(home, names.OBJECTS),
        "requests_version": control.version(home, names.REQUESTS),
        "started_at": control.now(),
    }
    control.append(home, names.BATCHES, [batch])
    crash_point("match.started")
    return batch


def run_batch(home: Home, settings: Settings, batch: dict[str, Any]) -> dict[str, Any]:
    """Do a batch that stands in the ledger; every step may have been done before."""
    clock = Clock()
    spark = get_session(settings)
    clock.lap("session")
    work = _work(home, settings, batch)
    if batch["requests_to"] > batch["requests_after"]:
        apply_requests(home, work, batch["requests_after"], batch["requests_to"], settings)
        merge_small_files(home, settings, batch["plan_version"])
    clock.lap("index")
    crash_point("match.indexed")
    work = replace(work, files=tuple(index_files(home, batch["plan_version"])))
    stats = spark.sparkContext.accumulator([], WorkerStats())
    found = _found(spark, home, work, batch, Ledger(home), stats)
    if not delta.append_once(found, home, names.MATCHES, "match", batch["batch_id"]):
        # The pairs were written by a try that died later: run again for the figures alone.
        found.write.format("noop").mode("overwrite").save()
    clock.lap("match")
    crash_point("match.matched")
    counts = _counts(spark, home, batch, stats.value)
    _save_loads(home, batch, stats.value)
    clock.lap("loads")
    crash_point("match.loads_written")
    done = {**batch, **counts, "status": "done", "seconds": json.dumps(clock.seconds), "finished_at": control.now()}
    control.append(home, names.BATCHES, [done])
    crash_point("match.done")
    return done


def _work(home: Home, settings: Settings, batch: dict[str, Any]) -> Work:
    row = next(row for row in plan_rows(home) if row["plan_version"] == batch["plan_version"])
    return Work(
        home=home.path,
        plan_version=batch["plan_version"],
        workers=row["workers"],
        batch_id=batch["batch_id"],
        files=(),
        cache_dir=settings.cache_dir,
        cache_bytes=settings.cache_bytes,
    )


def _found(
    spark: "SparkSession", home: Home, work: Work, batch: dict[str, Any], ledger: Ledger, stats: Any
) -> "DataFrame":
    """Rows of `matches`: new objects, late subscriptions against stored objects, and what late deletions take back."""
    from pyspark.sql import functions as f

    objects = delta.read(spark, home, names.OBJECTS)
    key = f.col("object_key")
    found = matched(objects.where((key > batch["objects_after"]) & (key <= batch["objects_to"])), work, stats)
    first = ledger.min_request_time(batch["requests_after"], batch["requests_to"])
    last = ledger.max_matched_ts(batch["objects_after"])
    if first is None or last is None or first > last:
        return found
    stored = objects.where(
        (key <= batch["objects_after"]) & (f.col("ts") >= f.timestamp_micros(f.lit(control.micros_of(first))))
    )
    late = replace(work, after_key=batch["requests_after"])
    found = found.unionByName(matched(stored, late, stats))
    return found.unionByName(retractions(spark, home, batch, stats))


def matched(objects: "DataFrame", work: Work, stats: Any) -> "DataFrame":
    """Rows of `matches` for objects: routed, sent to their workers in one shuffle, matched there."""
    from pyspark.sql import functions as f

    routed = objects.select("object_key", "object_id", "ts", "lon", "lat", "terms").mapInArrow(
        route_task(work), spark_schema(ROUTED)
    )
    parted = routed.repartitionById(work.workers, f.col("worker"))
    return parted.mapInArrow(match_task(work, stats), spark_schema(MATCHES))


def _counts(spark: "SparkSession", home: Home, batch: dict[str, Any], stats: list[dict[str, Any]]) -> dict[str, int]:
    from pyspark.sql import functions as f

    key = f.col("object_key")
    objects = (
        delta.read(spark, home, names.OBJECTS)
        .where((key > batch["objects_after"]) & (key <= batch["objects_to"]))
        .count()
    )
    key = f.col("request_key")
    requests = (
        delta.read(spark, home, names.REQUESTS)
        .where((key > batch["requests_after"]) & (key <= batch["requests_to"]))
        .count()
        if batch["requests_to"] > batch["requests_after"]
        else 0
    )
    new = [part for part in stats if part["after_key"] < 0]
    return {
        "objects": objects,
        "discarded": objects - sum(part["routed"] for part in new),
        "requests": requests,
        "matches": sum(part["matches"] for part in stats),
        "retractions": sum(part["retractions"] for part in stats),
    }


def _save_loads(home: Home, batch: dict[str, Any], stats: list[dict[str, Any]]) -> None:
    """Write `unit_loads` unless a try that died later has."""
    done = control.read(home, names.UNIT_LOADS, ["batch_id"], [("batch_id", "=", batch["batch_id"])])
    if done.num_rows:
        return
    sums: dict[tuple[int, int], list[float]] = {}
    for part in stats:
        whole = [part[name] for name in LOAD_FIGURES]
        units = [(unit, [objects, 0, candidates, matches, 0.0]) for unit, objects, candidates, matches in part["units"]]
        for unit, figures in [(-1, whole), *units]:
            before = sums.get((part["worker"], unit), [0, 0, 0, 0, 0.0])
            sums[part["worker"], unit] = [x + y for x, y in zip(before, figures, strict=True)]
    base = {"batch_id": batch["batch_id"], "plan_version": batch["plan_version"]}
    rows = [
        {**base, "worker": worker, "unit": unit, **dict(zip(LOAD_FIGURES, figures, strict=True))}
        for (worker, unit), figures in sums.items()
        if worker != names.EVERY_WORKER
    ]
    if rows:
        control.append(home, names.UNIT_LOADS, rows)
