"""Read only the end of both ledgers: the last batch, the files since then, and what the next batch will process.

For the pipeline and for `state`; reports read whole ledgers (history.py).
"""

import datetime as dt
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.tables.delta_tables import greatest_value, read_table
from pststream.tables.ledger_rows import MAX_ROW, BatchRow, FileRow, latest_rows, log_key, watermark_after

RECENT_BATCHES = 9
"""Batches whose rows a ledger has."""


class TableAddresses(Protocol):
    """The part of a home that this module uses; `state.home.Home` has it."""

    def table(self, name: str) -> str:
        """Return the address of a table."""


@dataclass(frozen=True)
class Pending:
    """Key ranges of the rows that the next batch processes: greater than `after`, up to `to`."""

    objects_after: int
    objects_to: int
    requests_after: int
    requests_to: int

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.objects_to <= self.objects_after and self.requests_to <= self.requests_after


class Ledger:
    """The end of both ledgers, read when this object is created; the rest may be years long and is not read.

    last_batch   the last batch, done or started; None: no batch yet
    batches      the last RECENT_BATCHES batches, the last one included, in order
    files        files of objects from the one in which the objects of the last batch begin; files of requests from
                 there too, but none before the last one that an earlier batch applied. So they include all files of
                 the last and of the next batch, and the last file of the log.
    """

    def __init__(self, home: TableAddresses) -> None:
        last = greatest_value(home.table(names.BATCHES), "batch_id")
        self.batches = read_batches(home, last - RECENT_BATCHES) if last else []
        self.last_batch = self.batches[-1] if self.batches else None
        objects_after = self.last_batch["objects_after"] if self.last_batch else 0
        requests_after = self.last_batch["requests_after"] if self.last_batch else 0
        seq, kind = pds.field("file_seq"), pds.field("kind")
        recent = (seq >= requests_after >> names.ROW_BITS) | (kind == names.OBJECTS)
        self.files = read_files(home, (seq >= objects_after >> names.ROW_BITS) & recent)

    def done(self, kind: str) -> list[FileRow]:
        """Return those files of a kind whose ingest is done, in the order of the log."""
        return [f for f in self.files if f["kind"] == kind and f["status"] == "done"]

    def unfinished_ingest(self) -> list[FileRow]:
        """Return the files of an ingest that started and is not done."""
        return [f for f in self.files if f["status"] == "started"]

    def batches_before(self, batch_id: int) -> list[BatchRow]:
        """Return those of `batches` that are earlier than a batch, in order."""
        return [batch for batch in self.batches if batch["batch_id"] < batch_id]

    def unfinished_batch(self) -> BatchRow | None:
        """Return the batch that started and is not done."""
        return self.last_batch if self.last_batch and self.last_batch["status"] == "started" else None

    @property
    def next_file_seq(self) -> int:
        """Number of the next file of the log, from 1."""
        return self.files[-1]["file_seq"] + 1 if self.files else 1

    @property
    def next_ingest_id(self) -> int:
        """Number of the next ingest, from 1."""
        return max((f["ingest_id"] for f in self.files), default=0) + 1

    @property
    def next_batch_id(self) -> int:
        """Number of the next batch, from 1."""
        return int(self.last_batch["batch_id"]) + 1 if self.last_batch else 1

    @property
    def objects_matched(self) -> int:
        """Key up to which batches have matched objects, including an unfinished batch, which has to finish first."""
        return int(self.last_batch["objects_to"]) if self.last_batch else 0

    @property
    def requests_applied(self) -> int:
        """Key up to which batches have applied requests to the index, including an unfinished batch."""
        return int(self.last_batch["requests_to"]) if self.last_batch else 0

    def watermark(self) -> dt.datetime | None:
        """Return the watermark of the object log: the greatest ts, without withdrawn objects."""
        return _watermark_after(self.done("objects"))

    def pending(self, max_objects: int) -> Pending:
        """Return what the next batch takes: all pending requests, and at most `max_objects` rows of the object log."""
        requests = self.done("requests")
        requests_to = log_key(requests[-1]["file_seq"], MAX_ROW) if requests else 0
        return Pending(
            self.objects_matched,
            self._last_object_key(max_objects),
            self.requests_applied,
            max(requests_to, self.requests_applied),
        )

    def pending_objects(self) -> int:
        """Return about how many accepted objects no batch has processed: of a file in parts, its share of the rows."""
        matched, objects = self.objects_matched, 0.0
        for file in self.done("objects"):
            left = log_key(file["file_seq"], file["rows"]) - max(matched, log_key(file["file_seq"], 0))
            objects += file["accepted"] * min(max(left, 0) / max(file["rows"], 1), 1.0)
        return round(objects)

    def _last_object_key(self, budget: int) -> int:
        """Return the key after `budget` more rows of the object log."""
        position = self.objects_matched
        for file in self.done("objects"):
            first = log_key(file["file_seq"], 0)
            last = log_key(file["file_seq"], file["rows"])
            begin = max(position, first)
            if last <= begin:
                continue
            if budget == 0:
                break
            rows = min(budget, last - begin)
            budget -= rows
            position = begin + rows
        return position

    def max_matched_ts(self, objects_after: int) -> dt.datetime | None:
        """Return an upper bound of the ts of the objects up to key `objects_after`, without withdrawn objects."""
        return _watermark_after([f for f in self.done("objects") if log_key(f["file_seq"], 0) < objects_after])

    def min_request_time(self, after: int, to: int) -> dt.datetime | None:
        """Return the least `at` of the requests accepted in the files of this key range; None if there are none."""
        return min(
            (
                f["min_ts"]
                for f in self.done("requests")
                if after < log_key(f["file_seq"], MAX_ROW) <= to and f["min_ts"]
            ),
            default=None,
        )

    def accepted_requests(self, after: int, to: int) -> int:
        """Count the requests accepted in the files of this key range; a batch takes whole files of requests."""
        return sum(f["accepted"] for f in self.done("requests") if after < log_key(f["file_seq"], MAX_ROW) <= to)

    def horizon(self, lateness: dt.timedelta) -> dt.datetime | None:
        """Return a lower bound of the ts of all objects that no batch has matched yet, also of later ingests; or None.

        An object may precede the watermark by `lateness`, or, in a pending file or a file of an unfinished ingest, by
        the lateness that its ingest was given, if that is greater. A pending withdrawal may have lowered the watermark.
        """
        pending = [f for f in self.done("objects") if log_key(f["file_seq"], f["rows"]) > self.objects_matched]
        bounds = [*(f["watermark"] for f in pending), self.watermark()]
        own = [json.loads(f["options"]).get("lateness_seconds", 0) for f in [*pending, *self.unfinished_ingest()]]
        lateness = max(lateness, dt.timedelta(seconds=max(own, default=0)))
        return None if None in bounds else min(bound for bound in bounds if bound is not None) - lateness


def read_files(home: TableAddresses, filter: pds.Expression | None = None) -> list[FileRow]:
    """Return the files of the log that pass the filter, in the order of the log."""
    rows: list[FileRow] = read_latest(home, names.FILES, "file_seq", filter=filter).to_pylist()
    return rows


def read_batches(home: TableAddresses, after: int = 0, up_to: int = names.MAX_INT64) -> list[BatchRow]:
    """Return the batches with after < batch_id <= up_to, in order."""
    number = pds.field("batch_id")
    within = (number > after) & (number <= up_to)
    rows: list[BatchRow] = read_latest(home, names.BATCHES, "batch_id", filter=within).to_pylist()
    return rows


def read_latest(
    home: TableAddresses,
    name: str,
    key: str,
    columns: list[str] | None = None,
    filter: pds.Expression | None = None,
) -> pa.Table:
    """Return the latest row of each key of a ledger, by key; `columns`: those besides key and status, None: all."""
    selected = None if columns is None else [key, "status", *columns]
    return latest_rows(read_table(home.table(name), selected, filter), key)


def known_hashes(home: TableAddresses, hashes: Collection[str]) -> set[tuple[str, str]]:
    """Return (kind, hash) of those files of the log, done or started, that have one of these hashes."""
    if not hashes:
        return set()
    wanted = pds.field("sha256").isin(pa.array(hashes, pa.string()))
    rows = read_table(home.table(names.FILES), ["kind", "sha256"], wanted).to_pylist()
    return {(row["kind"], row["sha256"]) for row in rows}


def recent_row_counts(home: TableAddresses, kind: str, count: int) -> list[int]:
    """Return the numbers of rows of the last `count` files of a kind whose ingest is done, in the order of the log."""
    done = (pds.field("kind") == kind) & (pds.field("status") == "done")
    is_file = pds.field("withdrawal_id").is_null() & pds.field("statistics_version").is_null()
    rows = read_table(home.table(names.FILES), ["file_seq", "rows"], done & is_file).sort_by("file_seq")
    row_counts: list[int] = rows.column("rows").slice(max(0, rows.num_rows - count)).to_pylist()
    return row_counts


def _watermark_after(done: list[FileRow]) -> dt.datetime | None:
    """Return the watermark of the object log after the last of these files; None if there are none."""
    return watermark_after(done[-1]) if done else None
