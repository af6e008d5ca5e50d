"""Read a home's totals and its latest micro-batches from the ledgers, for the pages."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from pststream import names
from pststream.delta_tables import TableReader
from pststream.domain.arrow_columns import sum_column
from pststream.ledgers.history import LedgerHistory
from pststream.ledgers.ledger_rows import step_seconds

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
    return BatchHistory(totals, tuple(map(_view, latest)), unfinished[-1] if unfinished else None)


def read_ledgers(tables: TableReader) -> LedgerHistory | None:
    """Read both ledgers; None if one of them is missing or broken."""
    return tables.tolerate(
        names.FILES, lambda: tables.tolerate(names.BATCHES, lambda: LedgerHistory(tables.strict), None), None
    )


def _view(row: dict[str, Any]) -> BatchView:
    counts = ("objects", "discarded", "requests", "matches", "retractions")
    return BatchView(
        batch_id=row["batch_id"],
        plan_version=row["plan_version"],
        seconds=step_seconds(row["seconds_by_step"]),
        finished_at=row["finished_at"],
        **{name: row[name] or 0 for name in counts},
    )
