"""Parquet files: types of columns, damaged files, row numbers over batches."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.errors import InputFileError
from pststream.input import parquet_reader
from pststream.input.readers import read_chunks
from tests.oracles.records import read_records, to_records

SOURCES = {"object_id": ["id"], "text": ["text"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": list(range(1000)), "text": [f"tea {n}" for n in range(1000)]}), path)
    return path


def test_rows_are_numbered_over_batches(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_reader, "MAX_CHUNK_ROWS", 64)
    chunks = list(read_chunks(str(path), None, SOURCES))
    assert len(chunks) == 16
    assert [row for chunk in chunks for row in chunk.rows] == list(range(1, 1001))
    assert chunks[3].table.column("id").type == pa.int64()


def test_wide_rows_make_small_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_reader, "MAX_ROW_BYTES", 1_000_000)
    table = pa.table({"id": range(200), "text": [str(n) * 10_000 for n in range(200)]})
    pq.write_table(table, tmp_path / "x.parquet", use_dictionary=False, compression="none")
    sizes = [len(chunk.rows) for chunk in read_chunks(f"{tmp_path}/x.parquet", None, SOURCES)]
    assert sum(sizes) == 200
    assert max(sizes) == 64


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())])
def test_text_is_string_whatever_it_was(tmp_path: Path, kind: pa.DataType) -> None:
    texts = pa.array(["tea", None, "ü"]).cast(kind)
    pq.write_table(pa.table({"id": ["a", "b", "c"], "text": texts}), tmp_path / "x.parquet")
    (chunk,) = read_chunks(f"{tmp_path}/x.parquet", None, SOURCES)
    assert chunk.table.column("text").type == pa.string()
    assert chunk.table.column("text").to_pylist() == ["tea", None, "ü"]


def test_text_that_is_not_utf8_costs_its_row(tmp_path: Path) -> None:
    offsets = pa.py_buffer(pa.array([0, 1, 2, 3], pa.int32()).buffers()[1].to_pybytes())
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xffb")])
    pq.write_table(pa.table({"id": [1, 2, 3], "text": texts}), tmp_path / "x.parquet")
    (chunk,) = read_chunks(f"{tmp_path}/x.parquet", None, SOURCES)
    assert (chunk.rows.tolist(), chunk.table.column("text").to_pylist()) == ([1, 3], ["a", "b"])
    assert [(r.row, r.field, r.reason, r.raw) for r in chunk.rejected] == [(2, "text", "invalid_utf8", r"\xff")]


@pytest.mark.parametrize("cut", [0, 3, 100, -4, -40])
def test_a_file_that_is_cut_short_is_refused(path: Path, cut: int) -> None:
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputFileError, match="Parquet") as caught:
        list(read_chunks(str(path), None, SOURCES))
    assert caught.value.exit_code == 2


def test_damage_inside_is_an_error_when_it_is_reached(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    with pytest.raises(InputFileError):
        list(read_chunks(str(path), None, SOURCES))


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("id,text\n1,tea\n")
    with pytest.raises(InputFileError, match="not readable as Parquet"):
        list(read_chunks(f"{tmp_path}/x.parquet", None, SOURCES))
    with pytest.raises(InputFileError, match="no such file"):
        list(read_chunks(f"{tmp_path}/y.parquet", None, SOURCES))


def test_wrong_column_names(path: Path) -> None:
    with pytest.raises(InputFileError, match="no column ts; it has: id, text"):
        list(read_chunks(str(path), None, {"ts": ["ts"]}))
    with pytest.raises(InputFileError, match="no column op, subscription_id"):
        list(read_records(str(path), None))


def test_a_compressed_file(path: Path) -> None:
    packed = path.with_suffix(".parquet.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    (chunk,) = read_chunks(str(packed), None, SOURCES)
    assert len(chunk.rows) == 1000


def test_files_without_rows(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"id": pa.array([], pa.string()), "text": pa.array([], pa.string())}), tmp_path / "x.parquet"
    )
    assert sum(len(chunk.rows) for chunk in read_chunks(f"{tmp_path}/x.parquet", None, SOURCES)) == 0


def test_requests_are_no_csv(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="JSON Lines or Parquet"):
        read_records(f"{tmp_path}/x.csv", None)


def test_damage_that_hides_rows_is_an_error(tmp_path: Path) -> None:
    """Arrow reads no rows at all of a file in whose footer one certain bit is flipped, and says nothing."""
    table = pa.table({"id": [str(n) for n in range(18)], "text": [None, "tea"] * 9})
    pq.write_table(table, tmp_path / "x.parquet", store_schema=False)
    whole = (tmp_path / "x.parquet").read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    reasons = set()
    for at in range(footer, len(whole)):
        (tmp_path / "x.parquet").write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])
        try:
            rows = [row for chunk in read_chunks(f"{tmp_path}/x.parquet", None, SOURCES) for row in chunk.rows]
        except InputFileError as error:
            reasons.add(error.reason)
        else:
            assert rows == list(range(1, 19)), f"byte {at}"
    assert "only 0 of its 18 rows can be read" in reasons


def test_column_names_that_are_not_utf8(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"], "text": ["tea"]}), tmp_path / "x.parquet", store_schema=False)
    content = (tmp_path / "x.parquet").read_bytes()
    (tmp_path / "x.parquet").write_bytes(content.replace(b"text", b"te\xfft"))
    with pytest.raises(InputFileError, match="not readable as Parquet"):
        list(read_chunks(f"{tmp_path}/x.parquet", None, SOURCES))


def test_a_column_of_requests_twice(tmp_path: Path) -> None:
    columns = [pa.array(["insert"]), pa.array(["s"]), pa.array([1]), pa.array([2])]
    pq.write_table(pa.Table.from_arrays(columns, ["op", "subscription_id", "at", "at"]), tmp_path / "x.parquet")
    with pytest.raises(InputFileError, match="column at occurs more than once"):
        list(read_records(f"{tmp_path}/x.parquet", None))


@pytest.mark.parametrize("zone", ["No/Where", "Asia/Kolkata", "UTC"])
def test_times_are_instants_whatever_zone_stands_beside_them(tmp_path: Path, zone: str) -> None:
    at = pa.array([0, None], pa.timestamp("ms", zone))
    pq.write_table(pa.table({"op": ["a", "b"], "subscription_id": ["s", "t"], "at": at}), tmp_path / "x.parquet")
    (records,) = read_records(f"{tmp_path}/x.parquet", None)
    assert records.records[0]["at"].isoformat() == "1970-01-01T00:00:00+00:00"
    (chunk,) = read_chunks(f"{tmp_path}/x.parquet", None, {"text": ["at"]})
    assert chunk.table.column("at").type == pa.timestamp("ms", "UTC")


def test_nanoseconds_of_requests(tmp_path: Path) -> None:
    """The least of them, which pandas takes for no time at all, is a time; others are cut to microseconds."""
    at = pa.array([-(2**63), 1_001], pa.timestamp("ns"))
    pq.write_table(pa.table({"op": ["a", "b"], "subscription_id": ["s", "t"], "at": at}), tmp_path / "x.parquet")
    (records,) = read_records(f"{tmp_path}/x.parquet", None)
    assert [record["at"].year for record in records.records] == [1677, 1970]
    assert records.records[1]["at"].microsecond == 1


def test_a_value_beyond_the_calendar_costs_its_row(tmp_path: Path) -> None:
    times = pa.array([0, 2**62 // 1000, None], pa.timestamp("ms"))
    table = pa.table({"subscription_id": ["a", "b", "c"], "created_at": times})
    pq.write_table(table, tmp_path / "x.parquet", version="2.6")
    (chunk,) = map(to_records, parquet_reader.read_parquet_requests(f"{tmp_path}/x.parquet", {}))
    assert [(one.row, one.field, one.reason) for one in chunk.rejected] == [(2, "created_at", "time_out_of_range")]
    assert (chunk.rows, [record["subscription_id"] for record in chunk.records]) == ([1, 3], ["a", "c"])
