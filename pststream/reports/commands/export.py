"""Export the matched pairs of finished batches, without retracted ones, to one CSV, JSON Lines or Parquet file."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pststream.base.progress import Progress, StepCounter, no_progress
from pststream.reports.reading.pairs import PAIR_SCHEMA, PairStream, encoded_pairs
from pststream.tables.delta_tables import AnyHome
from pststream.tables.table_files import export_tables


def export_matches(
    home: AnyHome, out: str, since: dt.datetime | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """Write every pair of finished batches to `out`, without the retracted ones.

    out    .csv, .jsonl or .parquet; formats: see table_files.py. Written under another name, then renamed.
    since  only objects with ts >= this
    A payload is JSON: a text in CSV and Parquet, a value in JSON Lines; null if the subscription had no other fields.
    Pairs are ordered by batch, within a batch as they are stored (a compacted file is ordered by its first batch).
    Memory holds key, id and payload of each subscription and the keys of the retracted pairs; it does not grow with
    the matches. Returns {"out", "rows"}. Raises UsageError for a file name or folder that cannot be used.
    """

    def tables() -> Iterator[pa.Table]:
        stream = PairStream(home, since)
        counter = StepCounter(progress, "exporting", "match", stream.count_all() if since is None else None)
        for pairs in stream:
            yield encoded_pairs(pairs, stream.inserted)
            counter.add(len(pairs.row))

    return {"out": out, "rows": export_tables(tables(), out, PAIR_SCHEMA, json_columns=("payload",))}
