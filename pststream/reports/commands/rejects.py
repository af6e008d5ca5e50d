"""List the latest rejected rows of a home: file, row number, field, reason, rejected value."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import AnyHome, TableReader
from pststream.ledgers.retries import COLUMNS as RETRY_COLUMNS
from pststream.ledgers.retries import Retry, is_retry, retries_among

COLUMNS = ("kind", "file", "row", "field", "reason", "detail", "raw")
ORDER = [("ingest_id", "descending"), ("file", "ascending"), ("row", "ascending")]


def list_rejects(home: AnyHome, reason: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
    """List at most `limit` rejected rows, the latest ingest first, within an ingest by file and row.

    Returns dicts with kind, file, row, field (empty: the whole row), reason, detail, raw, ingest_id, is_stored (whether
    all fields are stored, so that the row can be retried), retried_by (the ingest that retried it, or None). Keeps
    `limit` rows in memory (all rows if it is None), and skips data files of the table that cannot contain one of them.
    """
    reader = TableReader(home)
    wanted = pds.field("reason") == reason if reason is not None else None
    columns = (*COLUMNS, "ingest_id")
    rejects = reader.dataset(names.REJECTS).schema.empty_table().select(columns)
    rejects = rejects.append_column("is_stored", pa.array([], pa.bool_()))
    for latest, file in reader.files(names.REJECTS, "ingest_id", wanted, greatest=True):
        if limit is not None and rejects.num_rows >= limit and rejects.column("ingest_id")[-1].as_py() > latest:
            break
        for batch in reader.batches_of(names.REJECTS, file, (*columns, "record"), wanted):
            rows = batch.drop_columns(["record"]).append_column("is_stored", pc.is_valid(batch.column("record")))
            rejects = pa.concat_tables([rejects, pa.Table.from_batches([rows])])
            if limit is not None:
                rejects = rejects.sort_by(ORDER).slice(0, limit).combine_chunks()
    retries = retries_among(reader.read(names.FILES, RETRY_COLUMNS, is_retry() & (pds.field("status") == "done")))
    return [row | {"retried_by": _retried_by(row, retries)} for row in rejects.sort_by(ORDER).to_pylist()]


def _retried_by(row: dict[str, Any], retries: Sequence[Retry]) -> int | None:
    """Return the ingest that retried a reject: the first retry of its reason that goes up to its ingest."""
    after = (one for one in retries if one.reason == row["reason"] and one.ingests_to >= row["ingest_id"])
    return next((one.ingest_id for one in after if row["is_stored"]), None)
