"""What the ledgers of files and batches say: totals, lag, and the course of the batches."""

import datetime as dt
import json
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from pststream import names
from pststream.reports.tolerant import Tables

_FILE_COLUMNS = ("file_seq", "kind", "status", "rows", "accepted", "rejected", "max_ts")
_BATCH_COLUMNS = (
    "batch_id", "status", "plan_version", "objects", "discarded", "requests", "matches", "retractions",
    "seconds", "started_at", "finished_at",
)  # fmt: skip


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

    @property
    def duration(self) -> float:
        """Seconds of all steps."""
        return sum(self.seconds.values())


@dataclass(frozen=True)
class Totals:
    """Counts over the whole home."""

    objects: int = 0
    rejected_objects: int = 0
    requests: int = 0
    rejected_requests: int = 0
    insertions: int = 0
    deletions: int = 0
    matches: int = 0
    retractions: int = 0
    waiting: int = 0
    newest_object: dt.datetime | None = None


@dataclass(frozen=True)
class Course:
    """Totals, the batches in their order, and the batch that has started and is not done, if any."""

    totals: Totals = field(default_factory=Totals)
    batches: tuple[BatchView, ...] = ()
    unfinished: int | None = None


def read_course(tables: Tables) -> Course:
    """Totals and batches of a home."""
    files = _last_rows(tables, names.FILES, "file_seq", _FILE_COLUMNS)
    ledger = _last_rows(tables, names.BATCHES, "batch_id", _BATCH_COLUMNS)
    batches = tuple(_view(row) for row in ledger if row["status"] == "done")
    started = [row["batch_id"] for row in ledger if row["status"] != "done"]
    done = [file for file in files if file["status"] == "done"]
    objects = [file for file in done if file["kind"] == names.OBJECTS]
    requests = [file for file in done if file["kind"] == names.REQUESTS]
    accepted = _sum(objects, "accepted")
    totals = Totals(
        objects=accepted,
        rejected_objects=_sum(objects, "rejected"),
        requests=_sum(requests, "accepted"),
        rejected_requests=_sum(requests, "rejected"),
        insertions=tables.count(names.REQUESTS, pc.field("op") == "insert"),
        deletions=tables.count(names.REQUESTS, pc.field("op") == "delete"),
        matches=sum(batch.matches for batch in batches),
        retractions=sum(batch.retractions for batch in batches),
        waiting=max(accepted - sum(batch.objects for batch in batches), 0),
        newest_object=max((file["max_ts"] for file in objects if file["max_ts"] is not None), default=None),
    )
    return Course(totals, batches, started[-1] if started else None)


def _last_rows(tables: Tables, name: str, key: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """One row for each key, in its order: the one that says done, if there is one."""
    found: dict[int, dict[str, Any]] = {}
    for row in tables.rows(name, columns):
        if row["status"] == "done" or row[key] not in found:
            found[row[key]] = row
    return [found[number] for number in sorted(found)]


def _view(row: dict[str, Any]) -> BatchView:
    counts = ("objects", "discarded", "requests", "matches", "retractions")
    return BatchView(
        batch_id=row["batch_id"],
        plan_version=row["plan_version"],
        seconds=_seconds(row["seconds"]),
        finished_at=row["finished_at"],
        **{name: row[name] or 0 for name in counts},
    )


def _seconds(text: str | None) -> dict[str, float]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(step): float(value) for step, value in found.items() if isinstance(value, int | float)}


def _sum(rows: list[dict[str, Any]], column: str) -> int:
    return sum(row[column] or 0 for row in rows)
