"""No row is longer than the limit, no read larger than its bound, and no row number too large for a key."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.errors import InputFileError
from pststream.engine.local_engine import LocalEngine
from pststream.input import csv_reader, json_reader, row_chunks
from pststream.input.file_parts import FileRange, count_range, make_parts
from pststream.input.readers import read_chunks
from pststream.pipeline.ingest import stage_file as staging
from pststream.pipeline.ingest.stage_file import stage_file, stage_in_parts
from tests.file_options import WITHOUT_BOUNDS

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
BLOCK, MOST = 100, 1_000
SOURCES = {"object_id": ["a"], "text": ["b"]}


class LineEndFirst:
    """A stream in which each read begins with a line end; it records the sizes of the reads."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def read(self, size: int) -> bytes:
        """Return a line end and a line that does not end; nothing after 40 reads."""
        self.sizes.append(size)
        return b"\n" + b"x" * (size - 1) if len(self.sizes) <= 40 else b""

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (csv_reader, json_reader):
        monkeypatch.setattr(module, "BLOCK_BYTES", BLOCK)
        monkeypatch.setattr(module, "MAX_ROW_BYTES", MOST)


def test_lines_of_reads_that_begin_with_a_line_end_are_bounded() -> None:
    stream: Any = LineEndFirst()
    longest = 0
    for block in json_reader._blocks("x.jsonl", stream, True):
        longest = max(longest, *map(len, block.split(b"\n")))
    assert longest <= MOST and set(stream.sizes) == {BLOCK}


@pytest.mark.parametrize("offset", [0, 1, 50, 98, 99, 100, 101, 150])
@pytest.mark.parametrize("excess", [-1, 0, 1, 100, 950])
def test_a_line_of_json_has_at_most_the_limit(tmp_path: Path, offset: int, excess: int) -> None:
    long = json.dumps({"a": 1, "b": ""})
    long = long[:-2] + "x" * (MOST + excess - len(long)) + '"}'
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1, "b": "' + "x" * offset + '"}\n' + long + '\n{"a": 2, "b": ""}\n')
    if excess <= 0:
        assert [row for chunk in read_chunks(str(path), None, SOURCES) for row in chunk.rows] == [1, 2, 3]
    else:
        with pytest.raises(InputFileError, match="longer than 1000 bytes"):
            list(read_chunks(str(path), None, SOURCES))


@pytest.mark.parametrize("offset", [0, 1, 50, 98, 99, 100, 101, 150])
@pytest.mark.parametrize("excess", [-1, 0, 1, 50, 99])
def test_a_record_of_csv_has_at_most_the_limit(tmp_path: Path, offset: int, excess: int) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1," + "x" * offset + "\n2," + "x" * (MOST + excess - 2) + "\n3,y\n")
    if excess <= 0:
        assert [row for chunk in read_chunks(str(path), None, SOURCES) for row in chunk.rows] == [1, 2, 3]
    else:
        with pytest.raises(InputFileError, match="row 2 is longer than 1000 bytes"):
            list(read_chunks(str(path), None, SOURCES))


def test_a_reader_of_csv_has_no_more_than_a_row_and_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + ('1,"' + "x\n" * 490 + '"\n') * 9 + "2," + "y" * 5_000)
    held: list[int] = []
    scan = csv_reader.scan_records

    def watched(data: Any, *rest: Any) -> Any:
        held.append(len(data))
        return scan(data, *rest)

    monkeypatch.setattr(csv_reader, "scan_records", watched)
    with pytest.raises(InputFileError, match="row 10 is longer"):
        list(read_chunks(str(path), None, SOURCES))
    assert max(held) <= MOST + BLOCK


def test_a_header_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_reader, "_MAX_HEADER_BYTES", 50)
    for more in ("", "c" * 46):
        path = tmp_path / "x.csv"
        path.write_text(f"a,b,c{more}\n1,2,3\n")
        if not more:
            assert sum(len(chunk.rows) for chunk in read_chunks(str(path), None, SOURCES)) == 1
        else:
            with pytest.raises(InputFileError, match="header is longer than 50 bytes"):
                list(read_chunks(str(path), None, SOURCES))


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_file_with_a_long_row_is_not_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr("pststream.input.file_parts.MAX_ROW_BYTES", MOST)
    path = tmp_path / f"x.{ending}"
    path.write_text("1,2\n" * 50 + "x" * (MOST // 3 + 1) + "\n" + "1,2\n" * 50)
    size, cut = path.stat().st_size, 100
    ranges = [FileRange(str(path), ending, 0, cut), FileRange(str(path), ending, cut, size)]
    assert make_parts([count_range(one) for one in ranges]) == []


OBJECT = {"object_id": "o", "ts": "2026-01-01", "lon": 1.5, "lat": 2.5, "text": "tea"}
REQUEST = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [0, 0, 1, 1]}


def written(path: Path, rows: list[dict[str, Any]], blank_lines: int = 0) -> dict[str, Any]:
    """Write rows into a file; return its ledger row."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        lines = [",".join(map(str, row.values())) for row in rows]
        path.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    else:
        path.write_text("\n" * blank_lines + "".join(f"{json.dumps(row)}\n" for row in rows))
    options = WITHOUT_BOUNDS | {"max_text_bytes": 99}
    return {
        "file_seq": 1,
        "sha256": "0" * 64,
        "path": str(path),
        "options": json.dumps(options),
        "bytes": path.stat().st_size,
    }


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("kind", ["objects", "requests"])
def test_a_file_has_no_more_rows_than_keys_can_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, ending: str
) -> None:
    if (kind, ending) == ("requests", "csv"):
        return
    monkeypatch.setattr(row_chunks, "MAX_ROW", 5)
    row = OBJECT if kind == "objects" else REQUEST
    for rows in (5, 6):
        file = written(tmp_path / f"x.{ending}", [row] * rows)
        staged = stage_file(kind, str(tmp_path / "staged"), NOW, file)
        if rows == 5:
            assert (staged.problem, staged.last_row) == (None, 5)
        else:
            assert staged.problem is not None and "more than 5 rows" in staged.problem[1]


def test_parquet_with_too_many_rows_is_refused_before_its_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata say how many; four billion equal rows fit a small file."""
    monkeypatch.setattr(row_chunks, "MAX_ROW", 5)
    file = written(tmp_path / "x.parquet", [OBJECT] * 6)
    with pytest.raises(InputFileError, match="more than 5 rows"):
        next(read_chunks(file["path"], None, {"text": ["text"]}))


def test_blank_lines_of_json_have_numbers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_chunks, "MAX_ROW", 5)
    for blank, refused in ((3, False), (4, True)):
        file = written(tmp_path / "x.jsonl", [OBJECT] * 2, blank)
        assert (stage_file("objects", str(tmp_path / "staged"), NOW, file).problem is not None) == refused


def test_rows_of_parts_are_counted_over_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_chunks, "MAX_ROW", 20)
    monkeypatch.setattr(staging, "choose_part_bytes", lambda sizes: 200)
    for rows, refused in ((20, False), (21, True)):
        file = written(tmp_path / "x.csv", [OBJECT] * rows)
        (staged,) = stage_in_parts(LocalEngine(), "objects", str(tmp_path / "staged"), NOW, [file])
        assert (staged.problem is not None and "more than 20 rows" in staged.problem[1]) == refused
