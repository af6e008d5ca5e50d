"""The index: pieces of requests, the pieces that a later batch has replaced, and small files that are joined."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base import names
from pststream.pipeline.index import build_index
from pststream.pipeline.index.build_index import (
    PIECES,
    REQUEST_COLUMNS,
    apply_deletions,
    make_pieces,
    rows_of_task,
    select_deletions,
    write_index_rows,
)
from pststream.pipeline.index.compact_index import (
    are_replaced,
    choose_similar,
    receive_replaced,
    send_batches,
    send_replaced,
)
from pststream.queries.kinds.contract import RequestLimits
from pststream.queries.kinds.registry import KINDS
from pststream.state.data_files import DataFile
from pststream.state.slices import SLICE_ROWS
from pststream.state.tables import TABLES
from tests.conformance.square_kind import SQUARE

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
START_US, END_US = (int(moment.timestamp()) * 1_000_000 for moment in (START, END))
COLUMNS = list(dict.fromkeys([*REQUEST_COLUMNS, *SQUARE.piece_columns]))
TYPES = {field.name: field.type for field in TABLES[names.REQUESTS].schema} | {
    column.name: column.type for column in SQUARE.columns
}
SCHEMA = pa.schema([(name, TYPES[name]) for name in COLUMNS])


def insertion(key: int, kind: str, fields: dict[str, Any], **columns: Any) -> dict[str, Any]:
    query = KINDS[kind].parse_request({"keywords": "tea"} | fields, RequestLimits())
    return {"op": "insert", "subscription_key": key, "kind": kind, "effective_at": START} | query | columns


def requests(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), SCHEMA)


def test_each_kind_makes_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, SQUARE.name, SQUARE)
    pieces = make_pieces(
        requests(
            insertion(1, "range", {"bbox": [170, 0, -170, 1]}, expires_at=END),
            {"op": "delete", "subscription_key": 1, "effective_at": END},
            insertion(3, "square", {"centre": [5, 5], "width": 2}),
            insertion(4, "range", {"bbox": [0, 0, 1, 1]}),
        )
    )
    assert pieces.schema == PIECES
    rows = sorted(pieces.to_pylist(), key=lambda row: (row["subscription_key"], -row["west"]))
    boxes = [(row["subscription_key"], row["west"], row["south"], row["east"], row["north"]) for row in rows]
    assert boxes == [(1, 170, 0, 180, 1), (1, -180, 0, -170, 1), (3, 4, 4, 6, 6), (4, 0, 0, 1, 1)]
    assert [row["end_at"] for row in rows] == [END_US, END_US, names.NEVER_US, names.NEVER_US]
    assert {row["created_at"] for row in rows} == {START_US}


def test_parts_of_requests_make_the_pieces_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    strip = {"type": "Polygon", "coordinates": [[[0, 0], [9, 8], [9, 9], [0, 1], [0, 0]]]}
    circle = {"lon": 18, "lat": 59, "radius_m": 1000}
    fields = [{"geometry": strip}, {"bbox": [170, 0, -170, 1]}, {"circle": circle}, {"geometry": strip}]
    whole = requests(*(insertion(key, "range", region) for key, region in enumerate(fields)))
    pieces = sorted(make_pieces(whole).to_pylist(), key=str)
    monkeypatch.setattr(build_index, "PART_BYTES", whole.nbytes // 2)
    parts = list(build_index.split_by_bytes(whole))
    assert len(parts) > 1
    assert sorted((row for part in parts for row in make_pieces(part).to_pylist()), key=str) == pieces


def test_no_insertions_make_no_pieces() -> None:
    pieces = make_pieces(requests({"op": "delete", "subscription_key": 1, "effective_at": END}))
    assert (pieces.schema, pieces.num_rows) == (PIECES, 0)


def test_a_deletion_ends_a_piece_that_would_end_later() -> None:
    box = {"bbox": [0, 0, 1, 1]}
    rows = requests(
        insertion(1, "range", box, expires_at=END),
        insertion(2, "range", box),
        insertion(3, "range", box),
        {"op": "delete", "subscription_key": 2, "effective_at": END},
    )
    (deleted,) = select_deletions(rows, 7).to_pylist()
    assert deleted == {"subscription_key": 2, "end_at": END_US, "batch_id": 7}
    ended = apply_deletions(make_pieces(rows), (np.array([1, 2]), np.array([END_US + 1, END_US])))
    assert ended.column("end_at").to_pylist() == [END_US, END_US, names.NEVER_US]


def test_a_task_reads_few_rows_of_large_requests() -> None:
    boxes, polygons = DataFile("boxes", 60_000_000, 1_000_000), DataFile("polygons", 240_000_000, 15_000)
    assert rows_of_task([boxes]) == SLICE_ROWS
    assert 15_000 / 9 < rows_of_task([polygons]) < 15_000 / 7
    assert rows_of_task([DataFile("one", 10**12, 1)]) == 1


def test_files_of_large_pieces_have_few_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strip = {"type": "Polygon", "coordinates": [[[0, 0], [9, 8], [9, 9], [0, 1], [0, 0]]]}
    batches = [make_pieces(requests(insertion(key, "range", {"geometry": strip}))) for key in range(6)]
    (whole,) = write_index_rows(str(tmp_path), 1, 0, batches)
    monkeypatch.setattr(build_index, "SEGMENT_BYTES", 2 * batches[0].nbytes)
    parts = write_index_rows(str(tmp_path), 1, 0, batches)
    assert [file.rows for file in parts] == [2 * batches[0].num_rows] * 3
    assert sum(file.rows for file in parts) == whole.rows


PARTS = 3

STORED = pa.schema({"subscription_key": pa.int64(), "batch_id": pa.int64(), "kind": pa.string()})


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
            for rows in pq.read_table(path, schema=STORED).to_batches()
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
                pq.write_table(pa.table(dict(zip(STORED.names, zip(*some))) if some else [[]] * 3, STORED), path)
            files.append(paths)
            stored.append(rows)
        last: dict[int, int] = {}
        for key, batch, kind in (row for rows in stored for row in rows):
            if kind:
                last[key] = max(batch, last.get(key, batch))
        assert kept_by(files) == [[row for row in rows if row[2] is None or row[1] == last[row[0]]] for rows in stored]


MOST_FILES = 8


def file(number: int, rows: int) -> DataFile:
    return DataFile(f"{number:04}", rows, rows)


def test_files_that_no_smaller_ones_resemble_stay() -> None:
    assert choose_similar([file(0, 100)]) == []
    assert choose_similar([file(0, 9), file(1, 100)]) == []
    assert choose_similar([file(0, 1_000), file(1, 40), file(2, 9), file(3, 10)]) == [
        file(2, 9),
        file(3, 10),
        file(1, 40),
    ]
    assert choose_similar([file(0, 100), file(1, 100)]) == [file(0, 100), file(1, 100)]


@pytest.mark.parametrize("stored", [0, 5_000, 200_000])
def test_rows_are_seldom_written_again_and_files_stay_few(stored: int) -> None:
    rnd, files, added, written = random.Random(4), [file(0, stored)] if stored else [], 0, 0
    for number in range(1, 1_000):
        files.append(file(number, rnd.randrange(10, 40)))
        added += files[-1].rows
        if len(files) > MOST_FILES and (joined := choose_similar(files)):
            rows = sum(one.rows for one in joined)
            files = [one for one in files if one not in joined] + [file(number + 1_000, rows)]
            written += rows
        assert len(files) <= MOST_FILES
    assert sum(one.rows for one in files) == stored + added
    assert written < 15 * added
