"""The ledgers of files and batches: where the log stands, what is pending, what was left unfinished."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

from pststream import names
from pststream.state import control
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
    """Both ledgers as they stand when it is made."""

    def __init__(self, home: Home) -> None:
        files: dict[int, dict[str, Any]] = {}
        for row in control.read(home, names.FILES).to_pylist():
            if row["status"] == "done" or row["file_seq"] not in files:
                files[row["file_seq"]] = row
        self.files = [files[seq] for seq in sorted(files)]
        batches: dict[int, dict[str, Any]] = {}
        for row in control.read(home, names.BATCHES).to_pylist():
            if row["status"] == "done" or row["batch_id"] not in batches:
                batches[row["batch_id"]] = row
        self.batches = [batches[batch] for batch in sorted(batches)]

    def done(self, kind: str) -> list[dict[str, Any]]:
        """Files of `kind` whose ingest is done, in the order of the log."""
        return [f for f in self.files if f["kind"] == kind and f["status"] == "done"]

    def unfinished_ingest(self) -> list[dict[str, Any]]:
        """Files of an ingest that started and was not done."""
        return [f for f in self.files if f["status"] == "started"]

    def unfinished_batch(self) -> dict[str, Any] | None:
        """The batch that started and was not done."""
        return self.batches[-1] if self.batches and self.batches[-1]["status"] == "started" else None

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
        return self.batches[-1]["batch_id"] + 1 if self.batches else 1

    @property
    def objects_matched(self) -> int:
        """Key up to which objects were matched."""
        return self.batches[-1]["objects_to"] if self.batches else 0

    @property
    def requests_applied(self) -> int:
        """Key up to which requests are in the index."""
        return self.batches[-1]["requests_to"] if self.batches else 0

    def watermark(self) -> dt.datetime | None:
        """Greatest ts of the object log."""
        return max((f["max_ts"] for f in self.done("objects") if f["max_ts"] is not None), default=None)

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
        """A bound on the ts of objects up to key `objects_after`: the greatest of the files that hold them."""
        return max(
            (f["max_ts"] for f in self.done("objects") if key(f["file_seq"], 0) < objects_after and f["max_ts"]),
            default=None,
        )

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
        """No object that is still to be matched has a lesser ts; None: no such bound."""
        waiting = [f["watermark"] for f in self.done("objects") if key(f["file_seq"], f["rows"]) > self.objects_matched]
        bound = waiting[0] if waiting else self.watermark()
        return bound - lateness if bound is not None else None
