"""Count the rows and files that no finished batch has processed yet, and list the files in quarantine."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import TableReader
from pststream.ledgers.history import LedgerHistory
from pststream.ledgers.ledger_rows import log_key
from pststream.utc_times import iso

_QUARANTINE = ("hold_id", "kind", "path", "sha256", "bytes", "reasons", "status", "written_at")


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
    rows = reader.rows(names.QUARANTINE, _QUARANTINE)
    discarded = {row["hold_id"] for row in rows if row["status"] == "discarded"}
    files = pa.concat_tables([ledgers.files, ledgers.started_files])
    released = set(zip(files.column("kind").to_pylist(), files.column("sha256").to_pylist()))
    kept = [row for row in rows if row["hold_id"] not in discarded and (row["kind"], row["sha256"]) not in released]
    return sorted(kept, key=lambda row: int(row["hold_id"]))
