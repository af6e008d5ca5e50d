"""List the latest rejected rows of a home: file, row number, field, reason, rejected value."""

from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
from pststream.reports.reading.table_reader import AnyHome, TableReader

COLUMNS = ("kind", "file", "row", "field", "reason", "detail", "raw")
ORDER = [("ingest_id", "descending"), ("file", "ascending"), ("row", "ascending")]


def list_rejects(home: AnyHome, reason: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
    """List at most `limit` rejected rows, the latest ingest first, within an ingest by file and row.

    Returns dicts with kind, file, row, field (empty: the whole row), reason, detail, raw, ingest_id. Keeps `limit` rows
    in memory (all rows if it is None), and skips data files of the table that cannot contain one of them.
    """
    reader = TableReader(home)
    wanted = pds.field("reason") == reason if reason is not None else None
    columns = (*COLUMNS, "ingest_id")
    rejects = reader.dataset(names.REJECTS).schema.empty_table().select(columns)
    for latest, file in reader.files(names.REJECTS, "ingest_id", wanted, greatest=True):
        if limit is not None and rejects.num_rows >= limit and rejects.column("ingest_id")[-1].as_py() > latest:
            break
        for batch in reader.batches_of(names.REJECTS, file, columns, wanted):
            rejects = pa.concat_tables([rejects, pa.Table.from_batches([batch])])
            if limit is not None:
                rejects = rejects.sort_by(ORDER).slice(0, limit).combine_chunks()
    rows: list[dict[str, Any]] = rejects.sort_by(ORDER).to_pylist()
    return rows
