"""What the ledgers of files and batches say: totals, lag, and the course of the batches."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.reports.reading.ledgers import Ledgers, step_seconds
from pststream.reports.reading.tolerant_reader import Tables

LATEST = 60
"""Batches that are shown one by one."""


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
    batches: int = 0
    matches: int = 0
    retractions: int = 0
    waiting: int = 0
    newest_object: dt.datetime | None = None


@dataclass(frozen=True)
class Course:
    """Totals, the latest batches in their order, and the batch that has started and is not done, if any."""

    totals: Totals = field(default_factory=Totals)
    batches: tuple[BatchView, ...] = ()
    unfinished: int | None = None


def read_course(tables: Tables) -> Course:
    """Totals, and the latest batches, of a home."""
    ledgers = read_ledgers(tables)
    if ledgers is None:
        return Course()
    batches, unfinished = ledgers.batches, ledgers.started_batches.column("batch_id").to_pylist()
    objects, requests = (ledgers.files_of(kind) for kind in (names.OBJECTS, names.REQUESTS))
    accepted, asked = _sum(objects, "accepted"), _sum(requests, "accepted")
    insertions = tables.count(names.REQUESTS, pc.field("op") == "insert")
    totals = Totals(
        objects=accepted,
        rejected_objects=_sum(objects, "rejected"),
        requests=asked,
        rejected_requests=_sum(requests, "rejected"),
        insertions=insertions,
        deletions=max(asked - insertions, 0),
        batches=batches.num_rows,
        matches=_sum(batches, "matches"),
        retractions=_sum(batches, "retractions"),
        waiting=max(accepted - _sum(batches, "objects"), 0),
        newest_object=pc.max(objects.column("max_ts")).as_py(),
    )
    latest = batches.slice(max(0, batches.num_rows - LATEST)).to_pylist()
    return Course(totals, tuple(map(_view, latest)), unfinished[-1] if unfinished else None)


def read_ledgers(tables: Tables) -> Ledgers | None:
    """Both ledgers; None where one of them is absent or broken."""
    if tables.dataset(names.FILES) is None:
        return None
    return tables.tolerate(names.BATCHES, lambda: Ledgers(tables.reader), None)


def _view(row: dict[str, Any]) -> BatchView:
    counts = ("objects", "discarded", "requests", "matches", "retractions")
    return BatchView(
        batch_id=row["batch_id"],
        plan_version=row["plan_version"],
        seconds=step_seconds(row["seconds"]),
        finished_at=row["finished_at"],
        **{name: row[name] or 0 for name in counts},
    )


def _sum(rows: pa.Table, column: str) -> int:
    return int(pc.sum(rows.column(column)).as_py() or 0)
