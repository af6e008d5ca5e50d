"""What waits: objects and requests for a batch, files that a landing gate holds for a person."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.ledgers.history import LedgerHistory
from pststream.ledgers.rules import log_key
from pststream.reports.reading.table_reader import Reader
from pststream.utc_times import iso

_HELD = ("hold_id", "kind", "path", "sha256", "bytes", "reasons", "status", "at")


def objects_lag(reader: Reader, ledgers: LedgerHistory) -> dict[str, Any]:
    """Pending objects; only a file that a batch has taken in part is looked into."""
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


def requests_lag(ledgers: LedgerHistory) -> dict[str, Any]:
    """Pending requests."""
    pending = ledgers.pending_files("requests")
    oldest = min((file["min_ts"] for file in pending if file["min_ts"] is not None), default=None)
    return {"rows": sum(file["accepted"] for file in pending), "files": len(pending), "oldest_at": iso(oldest)}


def waiting_seconds(ledgers: LedgerHistory, now: dt.datetime) -> float:
    """Since the oldest file that no batch has taken whole was ingested."""
    waiting = [file["at"] for kind in ("objects", "requests") for file in ledgers.pending_files(kind)]
    return max((now - min(waiting)).total_seconds(), 0.0) if waiting else 0.0


def held_files(reader: Reader, ledgers: LedgerHistory) -> list[dict[str, Any]]:
    """Rows of `quarantine` of the files that are neither released (then they are in the log) nor discarded."""
    rows = reader.rows(names.QUARANTINE, _HELD)
    discarded = {row["hold_id"] for row in rows if row["status"] == "discarded"}
    files = pa.concat_tables([ledgers.files, ledgers.started_files])
    taken = set(zip(files.column("kind").to_pylist(), files.column("sha256").to_pylist()))
    held = [row for row in rows if row["hold_id"] not in discarded and (row["kind"], row["sha256"]) not in taken]
    return sorted(held, key=lambda row: int(row["hold_id"]))
