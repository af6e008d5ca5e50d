"""Write the results of a replay into a folder: matches.parquet, loads.csv and replay.json (`replay --out`)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.dataset as pds
import pyarrow.parquet as pq

from pststream import names
from pststream.atomic_files import write_atomically
from pststream.delta_tables import TableReader
from pststream.domain.arrow_columns import TIME
from pststream.pipeline.replay.load_figures import BatchLoads
from pststream.reports.reading.pairs import flatten_lists, read_inserted_subscriptions
from pststream.state.home import Home

MATCHES = pa.schema(
    {
        "object_id": pa.string(),
        "subscription_id": pa.string(),
        "ts": TIME,
        "batch_id": pa.int64(),
        "worker": pa.int64(),
        "retracted": pa.bool_(),
    }
)
"""Columns of matches.parquet: a row for each pair that a batch found or retracted, and the worker that found it."""

ROWS = 8_192


def write_results(
    out: Path, home: Home, scratch: Home, first: int, was: BatchLoads, would_be: BatchLoads, document: dict[str, Any]
) -> None:
    """Write the files; the matches of the batches from number `first` on in the scratch home."""
    out.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(out / "matches.parquet", MATCHES, compression="zstd") as writer:
        for pairs in _read_pairs(home, scratch, first):
            writer.write_batch(pairs)
    sides = (("was", was.workers), ("would_be", would_be.workers))
    rows = [part.add_column(0, "side", pa.array([side] * part.num_rows, pa.string())) for side, part in sides]
    pa_csv.write_csv(pa.concat_tables(rows), out / "loads.csv", pa_csv.WriteOptions(quoting_style="needed"))
    write_atomically(out / "replay.json", (json.dumps(document, indent=1) + "\n").encode())


def _read_pairs(home: Home, scratch: Home, first: int) -> Iterator[pa.RecordBatch]:
    inserted = read_inserted_subscriptions(TableReader(home))
    columns = ("object_id", "ts", "subscription_keys", "retracted", "worker", "batch_id")
    replayed = TableReader(scratch)
    wanted = pds.field("batch_id") >= first
    for _, file in replayed.files(names.MATCHES, "batch_id", wanted):
        for rows in replayed.batches_of(names.MATCHES, file, columns, wanted, ROWS):
            row, keys = flatten_lists(rows.column("subscription_keys"))
            taken = {name: rows.column(name).take(pa.array(row)) for name in rows.schema.names}
            taken["subscription_id"] = inserted.ids.take(pa.array(inserted.places(keys)))
            yield pa.RecordBatch.from_arrays([pc.cast(taken[f.name], f.type) for f in MATCHES], schema=MATCHES)
