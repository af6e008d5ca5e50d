"""What the ledgers say: of each file and each batch the row `done` counts, and `started` only where there is none.

A reader's own view of them, for ledgers of any length; a test holds it against `state.ledger.Ledger`.
"""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.reports.reading.table_reader import TableReader

_FILES = (
    "file_seq", "ingest_id", "kind", "path", "status", "rows", "accepted", "rejected", "min_ts", "max_ts", "at",
    "sha256",
)  # fmt: skip
_BATCHES = (
    "batch_id", "status", "plan_version", "objects_to", "requests_to", "objects", "discarded", "requests", "matches",
    "retractions", "seconds", "started_at", "finished_at",
)  # fmt: skip
_MAX_ROW = (1 << names.ROW_BITS) - 1


def log_key(file_seq: int, row: int) -> int:
    """Position of a row in the log."""
    return file_seq << names.ROW_BITS | row


class Ledgers:
    """Both ledgers, as tables: files and batches that are done, and those that were started and are not."""

    def __init__(self, reader: TableReader) -> None:
        self.batches, self.started_batches = _settled(reader.read(names.BATCHES, _BATCHES), "batch_id")
        self.files, self.started_files = _settled(reader.read(names.FILES, _FILES), "file_seq")

    @property
    def objects_matched(self) -> int:
        """Key up to which objects were matched by batches that are done."""
        return int(pc.max(self.batches.column("objects_to")).as_py() or 0)

    @property
    def requests_applied(self) -> int:
        """Key up to which requests were applied by batches that are done."""
        return int(pc.max(self.batches.column("requests_to")).as_py() or 0)

    def files_of(self, kind: str) -> pa.Table:
        """The files of a kind whose ingest is done, in the order of the log."""
        return self.files.filter(pc.equal(self.files.column("kind"), kind))

    def pending_files(self, kind: str) -> list[dict[str, Any]]:
        """Files of a kind that a batch still has to take, whole or in part."""
        taken = self.objects_matched if kind == "objects" else self.requests_applied
        files = self.files_of(kind)
        last_rows = files.column("rows").to_numpy() if kind == "objects" else _MAX_ROW
        last_keys = files.column("file_seq").to_numpy() << names.ROW_BITS | last_rows
        waiting: list[dict[str, Any]] = files.filter(pa.array(last_keys > taken)).to_pylist()
        return waiting


def step_seconds(text: str | None) -> dict[str, float]:
    """Seconds of each step of a batch, from the column `seconds`, without the CPU seconds that stand there too."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    steps = {str(step): value for step, value in found.items() if not str(step).endswith("_cpu")}
    return {step: float(value) for step, value in steps.items() if isinstance(value, int | float)}


def only_done(reader: TableReader) -> pds.Expression:
    """Filter of rows whose `batch_id` is that of a batch that is done; few words, however many batches there are."""
    table = reader.read(names.BATCHES, ["batch_id"], pds.field("status") == "done")
    done = np.unique(table.column(0).to_numpy())
    if not len(done):
        return pds.field("batch_id") < 0
    undone = np.setdiff1d(np.arange(done[0], done[-1]), done)
    within = (pds.field("batch_id") >= int(done[0])) & (pds.field("batch_id") <= int(done[-1]))
    return within & ~pds.field("batch_id").isin(undone.tolist()) if len(undone) else within


def _settled(rows: pa.Table, key: str) -> tuple[pa.Table, pa.Table]:
    """Rows that are done, and started ones of no key that is done; both ordered by the key."""
    is_done = pc.equal(rows.column("status"), "done")
    done = rows.filter(is_done).sort_by(key)
    started = rows.filter(pc.invert(is_done)).sort_by(key)
    known = pc.is_in(started.column(key), value_set=done.column(key).combine_chunks())
    return done, started.filter(pc.invert(known))
