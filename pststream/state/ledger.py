"""The ledgers of files and batches: where the log stands, what is pending, what was left unfinished."""

import datetime as dt
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.state import ledger_tables
from pststream.state.home import Home

_MAX_ROW = (1 << names.ROW_BITS) - 1


def key(file_seq: int, row: int) -> int:
    """Position of a row in the log."""
    return file_seq << names.ROW_BITS | row


@dataclass(frozen=True)
class Pending:
    """What a batch would take: key ranges (greater than `after`, up to `to`), and the times that matter in them."""

    objects_after: int
    objects_to: int
    requests_after: int
    requests_to: int

    @property
    def empty(self) -> bool:
        """Nothing to do."""
        return self.objects_to <= self.objects_after and self.requests_to <= self.requests_after


class Ledger:
    """Where the log stands when this is made, from the ends of both ledgers: a home may have years behind it.

    last_batch   the last batch, done or started; None: no batch yet
    files        the files of the log from where the last batch began: those of requests from the last that was applied
                 before it, those of objects from the one in which its objects began. All that it or the next batch
                 takes is among them, and the last file of the log.
    """

    def __init__(self, home: Home) -> None:
        last = ledger_tables.greatest(home, names.BATCHES, "batch_id")
        self.last_batch = next(iter(batches_between(home, last - 1)), None) if last else None
        begun = self.last_batch or {"objects_after": 0, "requests_after": 0}
        first = {log: begun[f"{log}_after"] >> names.ROW_BITS for log in (names.OBJECTS, names.REQUESTS)}
        seq, kind = pds.field("file_seq"), pds.field("kind")
        recent = (seq >= first[names.REQUESTS]) | (kind == names.OBJECTS)
        self.files = files_where(home, (seq >= first[names.OBJECTS]) & recent)

    def done(self, kind: str) -> list[dict[str, Any]]:
        """Those files that are of `kind` and whose ingest is done, in the order of the log."""
        return [f for f in self.files if f["kind"] == kind and f["status"] == "done"]

    def unfinished_ingest(self) -> list[dict[str, Any]]:
        """Files of an ingest that started and was not done."""
        return [f for f in self.files if f["status"] == "started"]

    def unfinished_batch(self) -> dict[str, Any] | None:
        """The batch that started and was not done."""
        return self.last_batch if self.last_batch and self.last_batch["status"] == "started" else None

    @property
    def next_file_seq(self) -> int:
        """Place of the next file in the log, from 1."""
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
        """Key up to which objects were matched."""
        return int(self.last_batch["objects_to"]) if self.last_batch else 0

    @property
    def requests_applied(self) -> int:
        """Key up to which requests are in the index."""
        return int(self.last_batch["requests_to"]) if self.last_batch else 0

    def watermark(self) -> dt.datetime | None:
        """Greatest ts of the object log."""
        return _greatest_ts(self.done("objects"))

    def pending(self, max_objects: int) -> Pending:
        """The next batch: every pending request, and rows of the object log up to `max_objects`."""
        requests = self.done("requests")
        requests_to = key(requests[-1]["file_seq"], _MAX_ROW) if requests else 0
        return Pending(
            self.objects_matched,
            self._cut(max_objects),
            self.requests_applied,
            max(requests_to, self.requests_applied),
        )

    def _cut(self, budget: int) -> int:
        """Key after `budget` more rows of the object log."""
        position = self.objects_matched
        for file in self.done("objects"):
            first = key(file["file_seq"], 0)
            last = key(file["file_seq"], file["rows"])
            begin = max(position, first)
            if last <= begin:
                continue
            if budget == 0:
                break
            taken = min(budget, last - begin)
            budget -= taken
            position = begin + taken
        return position

    def max_matched_ts(self, objects_after: int) -> dt.datetime | None:
        """A bound on the ts of objects up to the key where the last batch began: the greatest of the files so far."""
        return _greatest_ts([f for f in self.done("objects") if key(f["file_seq"], 0) < objects_after])

    def min_request_time(self, after: int, to: int) -> dt.datetime | None:
        """The least `at` among requests of the files in this range."""
        return min(
            (f["min_ts"] for f in self.done("requests") if after < key(f["file_seq"], _MAX_ROW) <= to and f["min_ts"]),
            default=None,
        )

    def accepted_requests(self, after: int, to: int) -> int:
        """Requests accepted in the files of this range; a batch takes files of requests whole."""
        return sum(f["accepted"] for f in self.done("requests") if after < key(f["file_seq"], _MAX_ROW) <= to)

    def horizon(self, lateness: dt.timedelta) -> dt.datetime | None:
        """No object that is still to be matched has a lesser ts; None: no such bound. A file that waits, or that an
        ingest has begun with, is judged by the lateness of its time.
        """
        waiting = [f for f in self.done("objects") if key(f["file_seq"], f["rows"]) > self.objects_matched]
        bound = waiting[0]["watermark"] if waiting else self.watermark()
        own = [json.loads(f["options"]).get("lateness_seconds", 0) for f in [*waiting, *self.unfinished_ingest()]]
        return bound - max(lateness, dt.timedelta(seconds=max(own, default=0))) if bound is not None else None


def files_where(home: Home, filter: pds.Expression | None = None) -> list[dict[str, Any]]:
    """The files of the log that pass, in its order."""
    return settled(home, names.FILES, "file_seq", filter=filter).to_pylist()


def batches_between(home: Home, after: int = 0, to: int = names.NEVER_US) -> list[dict[str, Any]]:
    """The batches after one and up to another, in order."""
    number = pds.field("batch_id")
    return settled(home, names.BATCHES, "batch_id", filter=(number > after) & (number <= to)).to_pylist()


def settled(
    home: Home, name: str, number: str, columns: list[str] | None = None, filter: pds.Expression | None = None
) -> pa.Table:
    """The rows of a ledger that count, ordered by `number`, its key: `done`, or `started` where there is no other.

    `columns`: these alone; None: all.
    """
    read = None if columns is None else [number, "status", *columns]
    rows = ledger_tables.read(home, name, read, filter)
    numbers = rows.column(number).to_numpy()
    order = np.lexsort((pc.equal(rows.column("status"), "done").to_numpy(), numbers))
    last = np.append(numbers[order][1:] != numbers[order][:-1], True)[: len(order)]
    return rows.take(order[last])


def known_hashes(home: Home, offered: Collection[str]) -> set[tuple[str, str]]:
    """Kind and hash of the files of the log that have one of these hashes."""
    if not offered:
        return set()
    wanted = pds.field("sha256").isin(pa.array(offered, pa.string()))
    rows = ledger_tables.read(home, names.FILES, ["kind", "sha256"], wanted).to_pylist()
    return {(row["kind"], row["sha256"]) for row in rows}


def recent_rows(home: Home, kind: str, most: int) -> list[int]:
    """Rows of the last files of a kind whose ingest is done, in the order of the log, of `most` at most."""
    done = (pds.field("kind") == kind) & (pds.field("status") == "done")
    rows = ledger_tables.read(home, names.FILES, ["file_seq", "rows"], done).sort_by("file_seq")
    found: list[int] = rows.column("rows").slice(max(0, rows.num_rows - most)).to_pylist()
    return found


def _greatest_ts(done: list[dict[str, Any]]) -> dt.datetime | None:
    """The greatest ts of these files of objects and of all before them."""
    return max((ts for file in done for ts in (file["watermark"], file["max_ts"]) if ts is not None), default=None)
