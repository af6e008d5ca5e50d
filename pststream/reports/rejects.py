"""The rows that were not accepted."""

import heapq
from typing import Any

import pyarrow.dataset as pds

from pststream import names
from pststream.reports.reading import Home, Reader

COLUMNS = ("kind", "file", "row", "field", "reason", "detail", "raw")


def rejects(home: Home, reason: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
    """Rejected rows, those of the latest ingest first, in an ingest by file and row; at most `limit`.

    Dicts with kind, file, row, field (empty: the row as a whole), reason, detail, raw, ingest_id. Holds `limit` rows in
    memory, all of them if it is None, and reads no file of the table that cannot hold one of them.
    """
    reader = Reader(home)
    wanted = pds.field("reason") == reason if reason is not None else None
    columns = (*COLUMNS, "ingest_id")
    found: list[dict[str, Any]] = []
    for latest, file in reader.files(names.REJECTS, "ingest_id", wanted, greatest=True):
        if limit is not None and len(found) >= limit and found[-1]["ingest_id"] > latest:
            break
        for batch in reader.batches_of(names.REJECTS, file, columns, wanted):
            rows = [*found, *batch.to_pylist()]
            found = sorted(rows, key=_place) if limit is None else heapq.nsmallest(limit, rows, key=_place)
    return found


def _place(row: dict[str, Any]) -> tuple[int, str, int]:
    return -row["ingest_id"], row["file"], row["row"]
