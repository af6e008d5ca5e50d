"""The rows that were not accepted."""

from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
from pststream.reports.reading.table_reader import AnyHome, TableReader

COLUMNS = ("kind", "file", "row", "field", "reason", "detail", "raw")
ORDER = [("ingest_id", "descending"), ("file", "ascending"), ("row", "ascending")]


def rejects(home: AnyHome, reason: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
    """Rejected rows, those of the latest ingest first, in an ingest by file and row; at most `limit`.

    Dicts with kind, file, row, field (empty: the row as a whole), reason, detail, raw, ingest_id. Holds `limit` rows in
    memory, all of them if it is None, and reads no file of the table that cannot hold one of them.
    """
    reader = TableReader(home)
    wanted = pds.field("reason") == reason if reason is not None else None
    columns = (*COLUMNS, "ingest_id")
    found = reader.dataset(names.REJECTS).schema.empty_table().select(columns)
    for latest, file in reader.files(names.REJECTS, "ingest_id", wanted, greatest=True):
        if limit is not None and found.num_rows >= limit and found.column("ingest_id")[-1].as_py() > latest:
            break
        for batch in reader.batches_of(names.REJECTS, file, columns, wanted):
            found = pa.concat_tables([found, pa.Table.from_batches([batch])])
            if limit is not None:
                found = found.sort_by(ORDER).slice(0, limit).combine_chunks()
    rows: list[dict[str, Any]] = found.sort_by(ORDER).to_pylist()
    return rows
