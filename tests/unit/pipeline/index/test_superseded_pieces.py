"""The pieces that a later batch has replaced are those of an obvious twin, whatever files and workers have them."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pststream.pipeline.index.compact_index import are_replaced, receive_replaced, send_batches, send_replaced

PARTS = 3
SCHEMA = pa.schema({"subscription_key": pa.int64(), "batch_id": pa.int64(), "kind": pa.string()})


def kept_by(files: list[list[str]]) -> list[list[tuple[int, int, str | None]]]:
    """Run the shuffle over the files of each compaction; return the rows that stay."""
    to_parts: dict[int, list[tuple[int, pa.RecordBatch]]] = {}
    for number, paths in enumerate(files):
        for part, tag, rows in send_batches(PARTS, (number, paths)):
            to_parts.setdefault(part, []).append((tag, rows))
    to_compactions: dict[int, list[tuple[int, pa.RecordBatch]]] = {}
    for part, received in to_parts.items():
        for number, tag, rows in send_replaced(part, iter(received)):
            to_compactions.setdefault(number, []).append((tag, rows))
    kept = []
    for number, paths in enumerate(files):
        keys, batches = receive_replaced(iter(to_compactions[number]))  # each compaction runs
        assert np.array_equal(keys, np.unique(keys))
        rows = pa.Table.from_batches(
            rows.filter(pa.array(~are_replaced(rows, keys, batches)))
            for path in paths
            for rows in pq.read_table(path, schema=SCHEMA).to_batches()
        )
        kept.append(list(zip(*rows.to_pydict().values())))
    return kept


def test_only_the_last_batch_of_each_subscription_stays(tmp_path: Path) -> None:
    rnd = random.Random(5)
    for number in range(20):
        files: list[list[str]] = []
        stored: list[list[tuple[int, int, str | None]]] = []
        for compaction in range(4):
            rows = [
                (2 * rnd.randrange(30) + (kind is None), rnd.randrange(6), kind)
                for kind in rnd.choices((None, "knn"), k=rnd.choice((1, 20, 60)))
            ]
            paths = [str(tmp_path / f"{number}-{compaction}-{part}.parquet") for part in range(2)]
            for path, some in zip(paths, (rows[: len(rows) // 2], rows[len(rows) // 2 :])):
                pq.write_table(pa.table(dict(zip(SCHEMA.names, zip(*some))) if some else [[]] * 3, SCHEMA), path)
            files.append(paths)
            stored.append(rows)
        last: dict[int, int] = {}
        for key, batch, kind in (row for rows in stored for row in rows):
            if kind:
                last[key] = max(batch, last.get(key, batch))
        assert kept_by(files) == [[row for row in rows if row[2] is None or row[1] == last[row[0]]] for rows in stored]
