"""Parquet files: types of columns, damage, row numbers over batches, and bounds on texts from the headers of pages."""

import gzip
import io
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.errors import InputFileError
from pststream.input import parquet_reader
from pststream.input.parquet_batches import LongestText, TooManyBytes, UnreadableHeader, find_longest_text, read_pages
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
    assert 1 < max(sizes) <= 1_000_000 // 25_000


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


TEXTS = ["short", "a text of 19 bytes.", "x" * 5_000, "short"] * 50
VERSIONS = ({}, {"data_page_version": "2.0"}, {"compression": "zstd", "data_page_size": 100, "write_batch_size": 10})


def written(texts: list[str | None], **options: Any) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), content, **options)
    return content.getvalue()


def longest_in(content: bytes, dictionary: pa.Array | None, short: int = 0) -> LongestText:
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    return find_longest_text(io.BytesIO(content), column, lambda: dictionary, short)


@pytest.mark.parametrize("options", VERSIONS)
def test_all_pages_of_a_column_are_read(options: dict[str, Any]) -> None:
    content = written([*TEXTS, None, ""], **options)
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    first, *others = read_pages(io.BytesIO(content), column)
    assert (first.kind, first.values) == (2, 4) and first.bytes > 5_000
    assert {page.kind for page in others} == {3 if "data_page_version" in options else 0}
    assert sum(page.values for page in others) == column.num_values == 202
    assert sum(page.bytes for page in (first, *others)) <= column.total_uncompressed_size


@pytest.mark.parametrize("options", VERSIONS)
def test_the_longest_text_of_a_dictionary(options: dict[str, Any]) -> None:
    content = written(TEXTS, **options)
    size = next(read_pages(io.BytesIO(content), pq.read_metadata(io.BytesIO(content)).row_group(0).column(0))).bytes
    assert longest_in(content, pa.array(TEXTS[:3])) == LongestText(5_000, by_dictionary=True)
    for incomplete in (None, pa.array(TEXTS[:2])):
        assert longest_in(content, incomplete) == LongestText(size, by_dictionary=True)
    assert longest_in(content, None, short=size) == LongestText(size, by_dictionary=True)


def test_pages_that_store_what_they_decode_to_repeat_no_text() -> None:
    assert longest_in(written(TEXTS, use_dictionary=False), None) == LongestText(0, by_dictionary=True)
    other = written(TEXTS, use_dictionary=False, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"})
    assert longest_in(other, None) == LongestText(0, by_dictionary=False)


def test_prefixes_of_the_text_before_may_be_as_long_as_all_texts() -> None:
    texts = ["y" * 9_000] * 100
    content = written(texts, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})
    longest = longest_in(content, None)
    assert 9_000 <= longest.bytes < 12_000 and not longest.by_dictionary


def test_damaged_headers_give_a_bound_or_an_error_of_their_own() -> None:
    content = written(TEXTS, data_page_size=100, write_batch_size=10)
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    rnd = random.Random(1)
    for _ in range(2_000):
        damaged = bytearray(content)
        for _ in range(rnd.randint(1, 9)):
            damaged[rnd.randrange(4, column.total_compressed_size)] = rnd.randrange(256)
        try:
            pages = list(read_pages(io.BytesIO(damaged), column))
            assert all(page.bytes >= 0 and page.values >= 0 for page in pages)
        except UnreadableHeader:
            longest = find_longest_text(io.BytesIO(damaged), column, lambda: None, 0)
            assert longest.bytes >= column.total_uncompressed_size and not longest.by_dictionary


def test_a_column_of_too_many_pages_has_the_bound_of_all_its_texts() -> None:
    content = written(["a"] * 11_000, data_page_size=1, write_batch_size=1, use_dictionary=False)
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    with pytest.raises(UnreadableHeader, match="more than 10000 pages"):
        list(read_pages(io.BytesIO(content), column))
    assert longest_in(content, None).bytes >= column.total_uncompressed_size


@pytest.mark.parametrize(
    "header",
    [
        b"\x15\x00\x15\xff\xff\xff\xff\xff\x7f",  # a page of terabytes
        b"\x15\x00\x15" + b"\xff" * 30,  # an integer without end
        b"\x15\x00\x15\x01\x15\x02",  # a size below zero
        b"\x15\x00\x15\x02\x15\x02\x2c\x15\x01\x15\x00\x00\x00",  # a number of values below zero
        b"\x1c" * 50,  # structs in structs
        b"\x19\xfc",  # a list
        b"\x11" * 5_000,  # fields without end
        b"\x18\xff\xff\xff\xff\x7f",  # a text that is longer than the file
        b"",
    ],
)
def test_odd_headers_are_unreadable(header: bytes) -> None:
    content = written(TEXTS)
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    with pytest.raises(UnreadableHeader):
        list(read_pages(io.BytesIO(b"PAR1" + header), column))


@pytest.mark.parametrize(
    "header, reason",
    [
        (b"\x15\x02\x15\x02\x15\x02\x05\x04\x02\x00", "a field twice"),
        (b"\x15\x02\x15\x02\x06\x04\x02\x15\x02\x00", "a field twice"),  # of another type, which Arrow skips
        (b"\x15\x02\x15\x02\x15\x02\x05\x84\x80\x08\x02\x00", "of more than 16 bits"),  # 2 + 65,536 is 2 to Arrow
        (b"\x15\x84\x80\x80\x80\x20\x15\x02\x15\x02\x00", "of more than 32 bits"),  # 2 + 2**32 is 2 to Arrow
    ],
)
def test_headers_that_arrow_understands_differently_are_unreadable(header: bytes, reason: str) -> None:
    content = written(TEXTS)
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    with pytest.raises(UnreadableHeader, match=reason):
        next(read_pages(io.BytesIO(b"PAR1" + header), column))


@pytest.mark.parametrize("field", [b"\x19\x43\0\0\0\0", b"\x06\x04\x82\x80\0\x21"])
def test_a_header_that_only_arrow_reads_gives_no_bound_of_the_footer(field: bytes) -> None:
    """The checksum becomes a list, or another size of a type that Arrow skips, and the footer states a wrong size."""
    content = bytearray(written(TEXTS, write_page_checksum=True, write_statistics=False, compression="none"))
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    checksum = next(at for at in range(4, 40) if content[at] == 0x15 and all(b > 127 for b in content[at + 1 : at + 5]))
    content[checksum : checksum + 6] = field
    assert pq.read_table(pa.BufferReader(bytes(content))).column("text").to_pylist() == TEXTS
    offsets = ("data_page_offset", "dictionary_page_offset", "total_compressed_size", "num_values")
    lying = SimpleNamespace(total_uncompressed_size=1, **{name: getattr(column, name) for name in offsets})
    assert find_longest_text(io.BytesIO(content), lying, lambda: None, 0).bytes > 1 << 40


def test_many_pages_are_read_if_they_have_many_values() -> None:
    content = written(["a"] * 240_000, data_page_size=1, write_batch_size=16, use_dictionary=False)
    assert longest_in(content, None) == LongestText(0, by_dictionary=True)


def test_pages_of_more_bytes_than_allowed_are_refused() -> None:
    content = written(TEXTS, use_dictionary=False, compression="zstd")
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    assert find_longest_text(io.BytesIO(content), column, lambda: None, 0, 1_000_000).bytes == 0
    with pytest.raises(TooManyBytes):
        find_longest_text(io.BytesIO(content), column, lambda: None, 0, 100_000)
