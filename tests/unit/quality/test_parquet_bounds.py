"""What a Parquet file decodes to is bounded: the whole of it, each part, and each row."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.errors import InputFileError
from pststream.kinds.contract import RequestLimits
from pststream.pipeline.ingest.stage_file import stage_file
from pststream.pipeline.ingest.staged_rows import read_staged
from pststream.quality import parquet_reader
from pststream.quality.files import input_files
from pststream.quality.readers import read_chunks
from pststream.quality.row_chunks import FilePart

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


def test_a_large_file_may_decode_to_its_size_many_times(tmp_path: Path) -> None:
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
    rows = [REQUEST | {"subscription_id": f"s{n}", "note": text} for n, text in enumerate(texts)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    limits = RequestLimits(max_id_bytes=10, max_payload_bytes=5_000)
    options = {"format": None, "timezone": "UTC", "max_id_bytes": 10, "max_payload_bytes": 5_000}
    file = {"file_seq": 1, "path": str(path), "options": json.dumps(options), "bytes": 1}
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
