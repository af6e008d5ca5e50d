"""Read both ledgers of a home (files, batches) from their beginning as tables, for commands, pages and `export`."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import TableReader
from pststream.ledgers.answer_counts import COLUMNS
from pststream.ledgers.ledger_rows import MAX_ROW, split_by_status
from pststream.sorted_keys import distinct_values

_FILES = (
    "file_seq", "ingest_id", "kind", "path", "status", "rows", "accepted", "rejected", "min_ts", "max_ts", "started_at",
    "sha256", "withdrawal_id", "statistics_version", "options",
)  # fmt: skip
_BATCHES = (
    "batch_id", "status", "plan_version", "objects_to", "requests_to", "objects", "discarded", "requests", "matches",
    "retractions", "seconds_by_step", "started_at", "finished_at", "stream_time", "removals", *COLUMNS,
)  # fmt: skip


class LedgerHistory:
    """All files and all batches as tables: finished ones, and ones that have only started."""

    def __init__(self, reader: TableReader) -> None:
        self.batches, self.started_batches = split_by_status(reader.read(names.BATCHES, _BATCHES), "batch_id")
        self.files, self.started_files = split_by_status(reader.read(names.FILES, _FILES), "file_seq")

    @property
    def objects_matched(self) -> int:
        """Key up to which batches that are done have matched objects."""
        return int(pc.max(self.batches.column("objects_to")).as_py() or 0)

    @property
    def requests_applied(self) -> int:
        """Key up to which batches that are done have applied requests."""
        return int(pc.max(self.batches.column("requests_to")).as_py() or 0)

    def files_of(self, kind: str) -> pa.Table:
        """Return the files of a kind whose ingest is done, in the order of the log; other events are no files."""
        of_kind = pc.equal(self.files.column("kind"), kind)
        events = (pc.is_valid(self.files.column(name)) for name in ("withdrawal_id", "statistics_version"))
        return self.files.filter(pc.and_not(of_kind, pc.or_(*events)))

    @property
    def withdrawals(self) -> list[dict[str, Any]]:
        """The rows of withdrawals, in the order of the log."""
        rows: list[dict[str, Any]] = self.files.filter(pc.is_valid(self.files.column("withdrawal_id"))).to_pylist()
        return rows

    @property
    def statistics_changes(self) -> list[dict[str, Any]]:
        """The rows that put term statistics in force, in the order of the log."""
        rows: list[dict[str, Any]] = self.files.filter(pc.is_valid(self.files.column("statistics_version"))).to_pylist()
        return rows

    def watermark(self) -> dt.datetime | None:
        """Return the watermark of the object log: the greatest ts, without withdrawn objects."""
        last = self.withdrawals[-1]["file_seq"] if self.withdrawals else 0
        objects = self.files.filter(pc.equal(self.files.column("kind"), names.OBJECTS))
        since = objects.filter(pc.greater_equal(objects.column("file_seq"), last))
        watermark: dt.datetime | None = pc.max(since.column("max_ts")).as_py()
        return watermark

    def pending_files(self, kind: str) -> list[dict[str, Any]]:
        """Return the files of a kind that still have rows which no finished batch has processed."""
        batched = self.objects_matched if kind == "objects" else self.requests_applied
        files = self.files_of(kind)
        last_rows = files.column("rows").to_numpy() if kind == "objects" else MAX_ROW
        last_keys = files.column("file_seq").to_numpy() << names.ROW_BITS | last_rows
        pending: list[dict[str, Any]] = files.filter(pa.array(last_keys > batched)).to_pylist()
        return pending


def read_done_batches(reader: TableReader, columns: Sequence[str]) -> pa.Table:
    """Return these columns of all batches that are done."""
    return split_by_status(reader.read(names.BATCHES, ["batch_id", "status", *columns]), "batch_id")[0]


def done_batches_filter(reader: TableReader) -> pds.Expression:
    """Return a filter of the rows of batches that are done; a range of ids, so it is short for any number."""
    table = reader.read(names.BATCHES, ["batch_id"], pds.field("status") == "done")
    done = distinct_values(table.column(0).to_numpy())
    if not len(done):
        return pds.field("batch_id") < 0
    undone = np.setdiff1d(np.arange(done[0], done[-1]), done)
    within = (pds.field("batch_id") >= int(done[0])) & (pds.field("batch_id") <= int(done[-1]))
    return within & ~pds.field("batch_id").isin(undone.tolist()) if len(undone) else within
