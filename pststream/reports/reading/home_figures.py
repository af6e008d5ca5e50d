"""Read a home's figures: totals, latest batches, lags, question files, subscriptions, watcher, deliveries."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values, is_among
from pststream.base.arrow_columns import sum_column
from pststream.base.texts import counted, duration
from pststream.base.utc_times import iso
from pststream.queries.kinds.registry import DEFAULT_KIND, KINDS
from pststream.settings import load_settings
from pststream.storage.registry import files_at
from pststream.tables.delta_tables import AnyHome, TableReader
from pststream.tables.ledgers import LedgerHistory, log_key, split_by_status, step_seconds

LATEST = 60
"""Number of batches that the history lists one by one, the latest ones."""


@dataclass(frozen=True)
class BatchView:
    """A micro-batch that is done; `seconds` is by step."""

    batch_id: int
    plan_version: int
    objects: int
    discarded: int
    requests: int
    matches: int
    retractions: int
    seconds: dict[str, float]
    finished_at: dt.datetime | None
    engine: str | None

    @property
    def duration(self) -> float:
        """Seconds of all steps."""
        return sum(self.seconds.values())

    @property
    def objects_per_second(self) -> float | None:
        """None if the batch took no time."""
        return self.objects / self.duration if self.duration > 0 else None


@dataclass(frozen=True)
class Totals:
    """Counts over the whole home."""

    objects: int = 0
    rejected_objects: int = 0
    requests: int = 0
    rejected_requests: int = 0
    insertions: int = 0
    deletions: int = 0
    batches: int = 0
    matches: int = 0
    retractions: int = 0
    waiting: int = 0
    newest_object: dt.datetime | None = None


@dataclass(frozen=True)
class BatchHistory:
    """Totals, the latest batches in their order, and the batch that was started and is not done, if any."""

    totals: Totals = field(default_factory=Totals)
    batches: tuple[BatchView, ...] = ()
    unfinished: int | None = None


def read_batch_history(tables: TableReader) -> BatchHistory:
    """Read the totals and the latest batches of a home."""
    ledgers = read_ledgers(tables)
    if ledgers is None:
        return BatchHistory()
    batches, unfinished = ledgers.batches, ledgers.started_batches.column("batch_id").to_pylist()
    objects, requests = (ledgers.files_of(kind) for kind in (names.OBJECTS, names.REQUESTS))
    accepted_objects, accepted_requests = sum_column(objects, "accepted"), sum_column(requests, "accepted")
    insertions = tables.count(names.REQUESTS, pc.field("op") == "insert")
    totals = Totals(
        objects=accepted_objects,
        rejected_objects=sum_column(objects, "rejected"),
        requests=accepted_requests,
        rejected_requests=sum_column(requests, "rejected"),
        insertions=insertions,
        deletions=max(accepted_requests - insertions, 0),
        batches=batches.num_rows,
        matches=sum_column(batches, "matches"),
        retractions=sum_column(batches, "retractions"),
        waiting=max(accepted_objects - sum_column(batches, "objects"), 0),
        newest_object=ledgers.watermark(),
    )
    latest = batches.slice(max(0, batches.num_rows - LATEST)).to_pylist()
    views = [
        BatchView(
            batch_id=row["batch_id"],
            plan_version=row["plan_version"],
            finished_at=row["finished_at"],
            **{name: row[name] or 0 for name in ("objects", "discarded", "requests", "matches", "retractions")},
            seconds=step_seconds(row["seconds_by_step"]),
            engine=row["engine"],
        )
        for row in latest
    ]
    return BatchHistory(totals, tuple(views), unfinished[-1] if unfinished else None)


def read_ledgers(tables: TableReader) -> LedgerHistory | None:
    """Read both ledgers; None if one of them is missing or broken."""
    return tables.tolerate(
        names.FILES, lambda: tables.tolerate(names.BATCHES, lambda: LedgerHistory(tables.strict), None), None
    )


def measure_object_lag(reader: TableReader, ledgers: LedgerHistory) -> dict[str, Any]:
    """Count the pending objects. Reads the table `objects` only for a file that a batch has matched in part."""
    matched = ledgers.objects_matched
    rows = 0
    oldest: list[dt.datetime] = []
    pending = ledgers.pending_files("objects")
    for file in pending:
        if log_key(file["file_seq"], 0) >= matched:
            rows += file["accepted"]
            oldest += [file["min_ts"]] if file["min_ts"] is not None else []
            continue
        key = pds.field("object_key")
        waiting = (key > matched) & (key <= log_key(file["file_seq"], file["rows"]))
        for batch in reader.batches(names.OBJECTS, ["ts"], waiting):
            rows += batch.num_rows
            oldest.append(pc.min(batch.column(0)).as_py())
    return {"rows": rows, "files": len(pending), "oldest_ts": iso(min(oldest, default=None))}


def measure_request_lag(ledgers: LedgerHistory) -> dict[str, Any]:
    """Count the pending requests."""
    pending = ledgers.pending_files("requests")
    oldest = min((file["min_ts"] for file in pending if file["min_ts"] is not None), default=None)
    return {"rows": sum(file["accepted"] for file in pending), "files": len(pending), "oldest_at": iso(oldest)}


def lag_seconds_of(ledgers: LedgerHistory, now: dt.datetime) -> float:
    """Return the seconds since the ingest of the oldest file with unprocessed rows; 0 if there is none."""
    waiting = [file["started_at"] for kind in ("objects", "requests") for file in ledgers.pending_files(kind)]
    return max((now - min(waiting)).total_seconds(), 0.0) if waiting else 0.0


def read_quarantined_files(reader: TableReader, ledgers: LedgerHistory) -> list[dict[str, Any]]:
    """Read the rows of `quarantine` whose files are neither released (then `files` has them) nor discarded."""
    columns = ("hold_id", "kind", "path", "sha256", "bytes", "reasons", "status", "written_at")
    rows = reader.rows(names.QUARANTINE, columns)
    discarded = {row["hold_id"] for row in rows if row["status"] == "discarded"}
    files = pa.concat_tables([ledgers.files, ledgers.started_files])
    released = set(zip(files.column("kind").to_pylist(), files.column("sha256").to_pylist()))
    kept = [row for row in rows if row["hold_id"] not in discarded and (row["kind"], row["sha256"]) not in released]
    return sorted(kept, key=lambda row: int(row["hold_id"]))


def count_questions(reader: TableReader) -> dict[str, int]:
    """Return {"files" (answered), "unfinished" (files that have started), "questions", "rejected", "rows"}."""
    counts = ("questions", "rejected", "rows")
    ledger = reader.read(names.QUESTION_FILES, ("question_file", "status", *counts))
    done, started = split_by_status(ledger, "question_file")
    return {"files": done.num_rows, "unfinished": started.num_rows} | {name: sum_column(done, name) for name in counts}


def count_subscriptions(reader: TableReader, settled: pds.Expression, now: pa.Scalar) -> dict[str, dict[str, int]]:
    """Return {kind: {"live", "inserted"}} for the kinds that have subscriptions.

    Insertions are counted by the statistics of row groups with one kind, without reading rows.

    settled: filter of the requests of finished ingests
    """
    requests, insertions = reader.dataset(names.REQUESTS), settled & (pds.field("op") == "insert")
    inserted = {kind: int(requests.count_rows(filter=insertions & (pds.field("kind") == kind))) for kind in KINDS}
    live = count_live(reader, settled, now)
    return {kind: {"live": live[kind], "inserted": count} for kind, count in inserted.items() if count}


def count_live(
    reader: TableReader, settled: pds.Expression, now: pa.Scalar, up_to: int = names.MAX_INT64
) -> dict[str, int]:
    """Count the subscriptions with keys up to `up_to` and start <= now < end by kind. Keeps the keys of those that were
    deleted or replaced in memory, 8 bytes each.

    settled: see `count_subscriptions`
    """
    begun, expires = settled & (pds.field("effective_at") <= now), pds.field("expires_at")
    columns, ends = ["subscription_key"], (pds.field("op") == "delete") | pds.field("replaced_key").is_valid()
    deletions = reader.batches(names.REQUESTS, ["replaced_key", *columns], begun & ends)
    parts = [pc.coalesce(*batch.columns).to_numpy() for batch in deletions]
    deleted = distinct_values(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    lasting = begun & (pds.field("op") == "insert") & (expires.is_null() | (expires > now))
    lasting &= pds.field("request_key") <= up_to
    if not len(deleted):
        requests = reader.dataset(names.REQUESTS)
        return {kind: int(requests.count_rows(filter=lasting & (pds.field("kind") == kind))) for kind in KINDS}
    live = Counter[str]()
    for batch in reader.batches(names.REQUESTS, [*columns, "kind"], lasting):
        lives = ~is_among(batch.column(0).to_numpy(), deleted)
        for stored in batch.column(1).filter(pa.array(lives)).value_counts().to_pylist():
            live[stored["values"]] += stored["counts"]
    return {kind: live[kind] for kind in KINDS}


def describe_kinds(by_kind: Mapping[str, Mapping[str, int]]) -> str:
    """Return the live subscriptions of each kind as text, if there are other kinds than `range`."""
    if not by_kind.keys() - {DEFAULT_KIND}:
        return ""
    return "; " + ", ".join(f"{counts['live']:,} {kind}" for kind, counts in by_kind.items()) + " live"


GONE_SECONDS = 30.0
"""A watcher without a heartbeat for this long counts as dead."""

_FIELDS: dict[str, type | tuple[type, ...]] = {
    "process": int, "at": str, "state": str, "lag_seconds": (int, float), "waiting_files": int, "batches": int,
    "failures": int, "error": (str, type(None)),
}  # fmt: skip
"""The fields that readers rely on. A file without them, or with other types, counts as missing."""


def read_watcher(home: AnyHome, now: dt.datetime) -> dict[str, Any] | None:
    """Read the heartbeat, with `alive`, and with `lag_seconds` as of now; None if there never was a watcher.

    A watcher that ended, on demand or by an error, is not alive.
    """
    try:
        heartbeat: dict[str, Any] = json.loads(files_at(home.path).read(names.HEARTBEAT))
        if not all(isinstance(heartbeat[name], kind) for name, kind in _FIELDS.items()):
            return None
        silent = (now - dt.datetime.fromisoformat(heartbeat["at"])).total_seconds()
        lag = round(heartbeat["lag_seconds"] + max(silent, 0.0), 3)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    alive = silent < GONE_SECONDS and heartbeat["state"] not in ("stopped", "failed")
    return heartbeat | {"alive": alive, "lag_seconds": lag}


def render_watcher(heartbeat: dict[str, Any] | None) -> list[str]:
    """Render a line on the watcher, and one on its last error."""
    if heartbeat is None:
        return []
    ended = heartbeat["state"] in ("stopped", "failed")
    head = "watcher        " if heartbeat["alive"] or heartbeat["state"] == "stopped" else "WATCHER        "
    state = heartbeat["state"] if heartbeat["alive"] or ended else "dead (no heartbeat)"
    waiting = f", {counted(heartbeat['waiting_files'], 'file')} waiting" if heartbeat["waiting_files"] else ""
    text = f"{state} (process {heartbeat['process']}, {heartbeat['at']})"
    text += f", {counted(heartbeat['batches'], 'batch', 'batches')}; lag {duration(heartbeat['lag_seconds'])}{waiting}"
    return [head + text, *([f"               {heartbeat['error']}"] if heartbeat["error"] else [])]


REMOVED = "removed"
_ROW = ("sink", "batch_id", "position", "complete", "state", "reason", "written_at", "delivered", "refused", "failures")
_DELIVERY_COUNTS = ("delivered", "refused", "failures")


def read_deliveries(reader: TableReader, ledgers: LedgerHistory) -> list[dict[str, Any]]:
    """Read the progress of each sink that ever had a delivery, ordered by name.

    A sink that the settings no longer name has the state `removed` and no batches left.
    """
    rows = reader.read(names.DELIVERIES, _ROW)
    sums = rows.group_by("sink").aggregate([(name, "sum") for name in _DELIVERY_COUNTS]).to_pylist()
    order = [(name, "ascending") for name in ("batch_id", "position", "complete", "written_at")]
    ordered = rows.select(_ROW[:7]).sort_by(order)
    of_sinks = (ordered.filter(pc.equal(ordered.column("sink"), sink["sink"])) for sink in sums)
    furthest = {row["sink"]: row for rows in of_sinks for row in rows.slice(rows.num_rows - 1).to_pylist()}
    # A message is dead until it has a row `delivered`; the maximum status finds that, as 'delivered' > 'dead'.
    letters = reader.read(names.DEAD_LETTERS, ("sink", "message_id", "status"))
    statuses = letters.group_by(["sink", "message_id"]).aggregate([("status", "max")])
    if statuses.num_rows:
        statuses = statuses.filter(pc.equal(statuses.column("status_max"), "dead"))
    dead = Counter(statuses.column("sink").to_pylist())
    configured = {sink.name for sink in load_settings(reader.home.path).sinks}
    done = ledgers.batches.column("batch_id")
    return [
        {
            "sink": sink["sink"],
            **{name: row[name] for name in ("state", "reason", "batch_id")},
            "at": iso(row["written_at"]),
            "batches_left": int(pc.sum(pc.greater_equal(done, row["batch_id"] + row["complete"])).as_py() or 0),
            **{name: sink[f"{name}_sum"] for name in _DELIVERY_COUNTS},
            "dead": dead[sink["sink"]],
            **({} if sink["sink"] in configured else {"state": REMOVED, "reason": None, "batches_left": 0}),
        }
        for sink in sorted(sums, key=lambda row: str(row["sink"]))
        for row in [furthest[sink["sink"]]]
    ]


def render_deliveries(sinks: list[dict[str, Any]]) -> list[str]:
    """Render a line for each sink."""
    lines = []
    for place, sink in enumerate(sinks):
        left = f", {counted(sink['batches_left'], 'batch', 'batches')} behind" if sink["batches_left"] else ""
        dead = f", {counted(sink['dead'], 'dead letter')}" if sink["dead"] else ""
        reason = f" ({sink['reason']}, {sink['at']})" if sink["reason"] else ""
        head = "delivery" if place == 0 else ""
        lines.append(f"{head:14} {sink['sink']}: {sink['state']}{reason}, {sink['delivered']:,} delivered{left}{dead}")
    return lines
