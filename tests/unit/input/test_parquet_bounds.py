"""What a Parquet file decodes to is bounded: the whole of it, each part, and each row."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.errors import InputFileError
from pststream.input import input_files, parquet_reader
from pststream.input.parquet_batches import read_batches, read_pages
from pststream.input.readers import read_chunks
from pststream.input.row_chunks import FilePart
from pststream.pipeline.ingest.stage_file import stage_file
from pststream.pipeline.ingest.staged_rows import read_staged
from pststream.queries.kinds.contract import RequestLimits
from tests.file_options import WITHOUT_BOUNDS

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
SOURCES = {"object_id": ["id"], "text": ["text"]}
REQUEST = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [0.0, 0.0, 1.0, 1.0]}


@pytest.fixture(autouse=True)
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a small file decode to a megabyte, and 1,000 bytes be a long row of a small part."""
    monkeypatch.setattr(input_files, "ALWAYS_ALLOWED_BYTES", 1_000_000)
    monkeypatch.setattr(parquet_reader, "MAX_ROW_BYTES", 1_000)


def rows_of(path: Path, part: FilePart | None = None) -> int:
    return sum(len(chunk.rows) for chunk in read_chunks(str(path), None, SOURCES, part))


def repeated(rows: int, text: str = "tea") -> pa.Table:
    return pa.table({"id": pa.repeat("a", rows), "text": pa.repeat(text, rows)})


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False, "compression": "zstd"}])
def test_one_value_repeated(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "x.parquet"
    for rows, refused in ((10_000, False), (1_000_000, True)):
        pq.write_table(repeated(rows), path, **options)
        assert path.stat().st_size < 9_000
        if refused:
            with pytest.raises(InputFileError, match="decodes to over 200 times its own size"):
                rows_of(path)
        else:
            assert rows_of(path) == rows


def test_prefixes_of_the_value_before(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    encoding = {"id": "PLAIN", "text": "DELTA_BYTE_ARRAY"}
    pq.write_table(repeated(5_000, "tea " * 200), path, use_dictionary=False, column_encoding=encoding)
    assert path.stat().st_size < 10_000
    with pytest.raises(InputFileError, match="decodes to over 200 times its own size"):
        rows_of(path)


def by_dictionary(places: list[int], texts: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), texts)


def lists_of(texts: pa.Array, lengths: list[int]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.cumsum([0, *lengths]), pa.int32()), texts)


LONG = "x" * 600
SHAPES = ("a text", "a text in a struct", "lists of texts", "a list in one row", "lists of structs of lists")


def long_texts(shape: str, rows: int) -> pa.Array:
    """A column in which a dictionary has each text once; one of seven is long."""
    texts = by_dictionary([int(row % 7 == 0) for row in range(rows)], ["a", LONG])
    half = [1] * (rows // 2) + [0] * (rows // 2)
    return {
        "a text": texts,
        "a text in a struct": pa.StructArray.from_arrays([texts], ["name"]),
        "lists of texts": lists_of(texts, [1] * rows),
        "a list in one row": lists_of(texts, [0] * 700 + [1, rows - 1] + [0] * (rows - 702)),
        "lists of structs of lists": lists_of(
            pa.StructArray.from_arrays([lists_of(texts, [2] * (rows // 2))], ["names"]), half
        ),
    }[shape]


@pytest.mark.parametrize("shape", SHAPES)
def test_long_texts_of_a_dictionary_are_decoded_in_small_batches(tmp_path: Path, shape: str) -> None:
    """Of a text that a few bits stand for, a batch has as many as fit, and one row at least."""
    path, table = (
        tmp_path / "x.parquet",
        pa.table({"id": [str(row) for row in range(1_500)], "text": long_texts(shape, 1_500)}),
    )
    pq.write_table(table, path, store_schema=False, row_group_size=1_000)
    with pq.ParquetFile(path) as file, open(path, "rb") as source:
        names, kinds = file.schema_arrow.names, file.schema_arrow.types
        for opened in (str(path), source):
            batches = list(read_batches("x", opened, file, [0, 1], names, 64, 10_000, 1_000_000))
            assert pa.Table.from_batches(batches).equals(file.read())
            assert [column.type for column in batches[0].columns] == kinds
            assert all(batch.num_rows == 1 or batch.nbytes < 20_000 for batch in batches)
            assert max(batch.num_rows for batch in batches) > 8


@pytest.mark.parametrize("shape", SHAPES)
def test_long_texts_of_a_dictionary_are_refused_before_they_are_decoded(
    tmp_path: Path, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_reader, "MAX_ROW_BYTES", 100_000)
    path, before, most = tmp_path / "x.parquet", pa.total_allocated_bytes(), 0
    columns = {"id": pa.repeat("a", 40_000), "text": long_texts(shape, 40_000)}
    pq.write_table(pa.table(columns), path, store_schema=False, row_group_size=20_000)
    before += sum(column.nbytes for column in columns.values())
    assert path.stat().st_size < 5_000
    with pytest.raises(InputFileError, match="decodes to over"):
        for _ in read_chunks(str(path), None, SOURCES):
            most = max(most, pa.total_allocated_bytes())
    assert most < before + 1_000_000


def test_lists_of_texts_in_encodings_that_have_no_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"text": pa.array([["a" * 900, "a" * 901], None, [], [None, "b"]] * 50)})
    for encoding in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        pq.write_table(table, path, use_dictionary=False, column_encoding={"text.list.element": encoding})
        with pq.ParquetFile(path) as file:
            batches = list(read_batches("x", str(path), file, [0], ["text"], 64, 1_000, 1_000_000))
            assert pa.Table.from_batches(batches).equals(file.read())


def test_lists_of_numbers_are_refused_by_their_number(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    for kind in (pa.int64(), pa.binary(9)):
        value = pa.scalar(b"123456789" if kind != pa.int64() else 7, kind)
        numbers = lists_of(pa.repeat(value, 200_000), [200_000])
        pq.write_table(pa.table({"id": ["a"], "text": numbers}), path)
        assert path.stat().st_size < 5_000
        with pytest.raises(InputFileError, match="decodes to over"):
            rows_of(path)


def test_a_list_of_very_many_truth_values_is_refused_by_its_number(tmp_path: Path) -> None:
    """Its values take one bit each, or none if they are null, but reading the list takes bytes for each."""
    path = tmp_path / "x.parquet"
    for values in (pa.nulls(300_000, pa.bool_()), pa.repeat(True, 300_000)):
        pq.write_table(pa.table({"id": ["a"], "text": lists_of(values, [300_000])}), path, compression="zstd")
        assert path.stat().st_size < 5_000
        with pytest.raises(InputFileError, match="decodes to over"):
            rows_of(path)


def test_long_values_of_one_length_are_decoded_in_small_batches(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"text": pa.repeat(pa.scalar(LONG.encode(), pa.binary(len(LONG))), 1_500)})
    pq.write_table(table, path)
    with pq.ParquetFile(path) as file:
        batches = list(read_batches("x", str(path), file, [0], ["text"], 64, 10_000, 1_000_000))
    assert pa.Table.from_batches(batches).equals(table)
    assert max(batch.num_rows for batch in batches) == 10_000 // len(LONG)


def test_pages_that_are_larger_than_the_footer_says_are_refused(tmp_path: Path) -> None:
    """`allowed` comes from the sizes in the footer; those in the headers of pages are what Arrow decompresses."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": pa.repeat(LONG, 1_500)}), path, use_dictionary=False, compression="zstd")
    with pq.ParquetFile(path) as file, pytest.raises(InputFileError, match="decodes to over"):
        next(read_batches("x", str(path), file, [0], ["text"], 64, 10_000, 500_000))


def sizes_of_batches(path: Path, names: list[str], most: int, allowed: int) -> list[tuple[int, int]]:
    """Return the rows and the bytes of each batch of at most 65,536 rows."""
    with pq.ParquetFile(path) as file:
        groups = range(file.metadata.num_row_groups)
        batches = read_batches("x", str(path), file, groups, names, 65_536, most, allowed)
        return [(batch.num_rows, batch.nbytes) for batch in batches]


def test_a_few_long_rows_among_short_ones_make_small_batches(tmp_path: Path) -> None:
    """The footer has the average; the pages of a batch are few enough, also if its rows are of many row groups."""
    path = tmp_path / "x.parquet"
    texts = ["tea"] * 20_000 + [LONG] * 64 + ["tea"] * 20_000
    for one_group in (True, False):
        options = {"row_group_size": len(texts) if one_group else 16, "data_page_size": 600, "write_batch_size": 1}
        pq.write_table(pa.table({"text": texts}), path, use_dictionary=False, compression="zstd", **options)
        sizes = sizes_of_batches(path, ["text"], 6_000, 10_000_000)
        assert sum(rows for rows, _ in sizes) == len(texts)
        assert max(size for _, size in sizes) <= 6_000 and max(rows for rows, _ in sizes) > 4


def test_pages_of_all_columns_and_row_groups_count_together(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    texts = [LONG] * 64
    options = {"row_group_size": 16, "use_dictionary": False, "compression": "zstd"}
    pq.write_table(pa.table({"a": texts, "b": texts, "n": range(64)}), path, **options)
    assert len(sizes_of_batches(path, ["a", "b", "n"], 10_000, 80_000)) > 1
    with pytest.raises(InputFileError, match="decodes to over"):
        sizes_of_batches(path, ["a", "b", "n"], 10_000, 70_000)


def test_a_page_of_numbers_that_decompresses_to_very_much_is_refused(tmp_path: Path) -> None:
    """Its header says so; Arrow would decompress it whole, however few numbers the column has."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"n": range(2_000)}), path, use_dictionary=False, compression="zstd")
    with open(path, "rb") as file:
        (page,) = read_pages(file, pq.read_metadata(path).row_group(0).column(0))
    content, said, lie = path.read_bytes(), varint(2 * page.bytes), varint(2 * 1_000_000)
    assert content[4:20].count(said) == 1 and len(said) == len(lie)
    path.write_bytes(content[:4] + content[4:20].replace(said, lie) + content[20:])
    with pytest.raises(InputFileError, match="decodes to over"):
        sizes_of_batches(path, ["n"], 10_000, 900_000)


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def test_a_large_file_may_decode_to_its_size_many_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_reader, "MAX_ROW_BYTES", 100_000)
    path = tmp_path / "x.parquet"
    texts = [str(n) * 50 for n in range(20_000)]
    pq.write_table(pa.table({"id": list(range(20_000)), "text": texts}), path)
    assert sum(map(len, texts)) > 4 * input_files.ALWAYS_ALLOWED_BYTES
    assert rows_of(path) == 20_000


def test_a_part_has_its_share(tmp_path: Path) -> None:
    """A tenth of the file decodes to less than the file may, and to more than a tenth of it."""
    path = tmp_path / "x.parquet"
    pq.write_table(repeated(100_000), path, row_group_size=10_000)
    assert path.stat().st_size < 12_000  # the file may decode to 2.4 MB, and one of ten row groups has 240 kB
    with pytest.raises(InputFileError, match="decodes to over 200 times"):
        rows_of(path, FilePart(3, 4, 30_000))


@pytest.mark.parametrize("kind", ["objects", "requests"])
def test_rows_have_at_most_the_limit(tmp_path: Path, kind: str) -> None:
    """Requests beyond it are rejects, as those of JSON Lines; objects refuse the file, as those of CSV."""
    path = tmp_path / "x.parquet"
    texts = ["x" * size for size in (10, 900, 2_000, 10, 10, 3_000)]
    if kind == "objects":
        pq.write_table(pa.table({"id": list("abcdef"), "text": texts}), path)
        with pytest.raises(InputFileError, match="row 3 is longer than 1000 bytes"):
            rows_of(path)
        return
    rows = [REQUEST | {"subscription_id": f"s{n}", "payload": {"note": text}} for n, text in enumerate(texts)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    limits = RequestLimits(max_id_bytes=10, max_payload_bytes=5_000)
    options = WITHOUT_BOUNDS | {"max_id_bytes": 10, "max_payload_bytes": 5_000}
    file = {"file_seq": 1, "sha256": "0" * 64, "path": str(path), "options": json.dumps(options), "bytes": 1}
    assert limits.longest_row > 3_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RequestLimits, "longest_row", 1_000)
        staged = stage_file("requests", str(tmp_path / "staged"), NOW, file)
    reasons = [
        (row["row"], row["reason"])
        for batch in read_staged(staged.parts, ["row", "reason"])
        for row in batch.to_pylist()
    ]
    assert sorted(reasons) == [(1, None), (2, None), (3, "row_too_long"), (4, None), (5, None), (6, "row_too_long")]


def test_a_footer_that_says_too_much(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(repeated(200, "tea " * 20_000), path, use_dictionary=False, compression="zstd", row_group_size=10)
    claimed = pq.read_metadata(path)
    assert sum(claimed.row_group(n).total_byte_size for n in range(20)) > 200 * path.stat().st_size
    with pytest.raises(InputFileError, match="by its footer"):
        rows_of(path)
