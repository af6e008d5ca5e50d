"""Files of random bytes are refused as a whole with a reason, or each row is accepted or rejected exactly once."""

import gzip
import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from pststream.input import csv_reader, input_files, json_reader, parquet_reader
from tests import worlds
from tests.fuzz.cases import cases, trying
from tests.fuzz.mutations import mutated
from tests.fuzz.staged import Read, read
from tests.fuzz.values import TEXTS, any_column, any_value
from tests.oracles import rows as slow

OBJECT_FORMATS = ("csv", "jsonl", "parquet", "csv.gz", "jsonl.zst", "parquet.gz")
REQUEST_FORMATS = ("jsonl", "parquet", "jsonl.gz", "parquet.zst")
OPTIONS: tuple[dict[str, Any], ...] = (
    *({}, {}, {"timezone": "Asia/Kolkata"}, {"columns": [["text", ["text", "object_id"]]]}),
    *({"columns": [["object_id", ["@row"]]]}, {"constants": [["ts", "2026-01-01"], ["text", "tea"]]}),
    *({"time_unit": "s"}, {"time_unit": "ms"}),
)


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks, chunks and limits so small that small files reach them."""
    for module in (csv_reader, json_reader):
        monkeypatch.setattr(module, "BLOCK_BYTES", 700)
        monkeypatch.setattr(module, "MAX_ROW_BYTES", 20_000)
        monkeypatch.setattr(module, "MAX_CHUNK_ROWS", 7)
    monkeypatch.setattr(parquet_reader, "MAX_CHUNK_ROWS", 7)
    monkeypatch.setattr(input_files, "ALWAYS_ALLOWED_BYTES", 200_000)


@pytest.mark.parametrize("kind", ["objects", "requests"])
def test_mutated_files(kind: str, tmp_path: Path) -> None:
    refused = whole = 0
    formats = OBJECT_FORMATS if kind == "objects" else REQUEST_FORMATS
    for number, rnd in cases(f"mutated {kind}", 350):
        path = tmp_path / f"{kind}.{rnd.choice(formats)}"
        path.write_bytes(_mutated_file(rnd, kind, path))
        with trying((kind, path.suffixes, number)):
            outcome = read(kind, path, tmp_path / "staged", **(rnd.choice(OPTIONS) if kind == "objects" else {}))
            refused += bool(outcome.refused)
            whole += not outcome.refused and bool(outcome.accepted)
            _check_all_rows(path, outcome)
    assert refused and whole, "cases of both kinds"


def _mutated_file(rnd: random.Random, kind: str, path: Path) -> bytes:
    """Mutate the bytes of a valid file before or after compression."""
    things, asked = worlds.object_log(rnd, rnd.randrange(25)), worlds.request_log(rnd, rnd.randrange(25))
    plain = path.with_name(path.name.removesuffix(".gz").removesuffix(".zst"))
    content = worlds.write_rows(plain, things if kind == "objects" else asked).read_bytes()
    if plain == path:
        return mutated(rnd, content)
    after = rnd.randrange(2)
    content = content if after else mutated(rnd, content)
    packed = gzip.compress(content) if path.suffix == ".gz" else zstandard.ZstdCompressor().compress(content)
    return mutated(rnd, packed) if after else packed


def _check_all_rows(path: Path, outcome: Read) -> None:
    """Assert that each row of the file is accepted or rejected, unless the file is refused."""
    if outcome.refused:
        return
    content = _content(path)
    if ".csv" in path.suffixes:
        assert outcome.rows == set(range(1, len(outcome.rows) + 1))
        text = content.decode("latin-1").removeprefix("ï»¿")
        if '"' not in text:
            assert len(outcome.rows) == max(0, len(slow.csv_records(text)) - 1)
    elif ".jsonl" in path.suffixes:
        lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        assert outcome.rows == {number for number, line in enumerate(lines, start=1) if line.strip()}
    else:
        assert outcome.rows == set(range(1, pq.ParquetFile(io.BytesIO(content)).metadata.num_rows + 1))


def _content(path: Path) -> bytes:
    """Decompress the file without our own code."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(content)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content), read_across_frames=True).read()
    return content


FIELDS = {
    "objects": worlds.OBJECT_FIELDS,
    "requests": (
        *("op", "subscription_id", "keywords", "bbox", "circle", "geometry", "created_at", "expires_at", "at", "owner"),
    ),
}


@pytest.mark.parametrize("kind", ["objects", "requests"])
def test_json_of_any_values(kind: str, tmp_path: Path) -> None:
    for number, rnd in cases(f"json {kind}", 60):
        lines = list(_json_lines(rnd, kind))
        path = tmp_path / f"{kind}.jsonl"
        path.write_bytes(b"\n".join(lines))
        with trying((kind, "json", number)):
            _check_all_rows(path, read(kind, path, tmp_path / "staged"))


def _json_lines(rnd: random.Random, kind: str) -> Iterator[bytes]:
    good = worlds.object_log(rnd, 12) if kind == "objects" else worlds.request_log(rnd, 12)
    for row in good:
        for _ in range(rnd.randrange(3)):
            row = row | {rnd.choice((*FIELDS[kind], "x")): any_value(rnd)}
        line = json.dumps(row if rnd.randrange(12) else any_value(rnd), ensure_ascii=bool(rnd.randrange(2)))
        yield line.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("kind", ["objects", "requests"])
def test_parquet_of_any_types(kind: str, tmp_path: Path) -> None:
    for number, rnd in cases(f"parquet {kind}", 120):
        rows = rnd.choice((0, 1, 5, 20))
        names = [name for name in FIELDS[kind] if rnd.randrange(12)]
        names += [rnd.choice((*FIELDS[kind], "x", ""))] if rnd.randrange(6) == 0 else []
        path = tmp_path / f"{kind}.parquet"
        columns = [_column(rnd, name, rows) for name in names]
        try:
            table, int96 = pa.Table.from_arrays(columns, names=names), rnd.randrange(4) == 0
            pq.write_table(table, path, row_group_size=6, use_deprecated_int96_timestamps=int96)
        except pa.ArrowException:  # Parquet has no such type, or no such value of it
            continue
        with trying((kind, "parquet", number, [str(column.type) for column in columns])):
            _check_all_rows(
                path, read(kind, path, tmp_path / "staged", **(rnd.choice(OPTIONS) if kind == "objects" else {}))
            )


def _column(rnd: random.Random, name: str, rows: int) -> pa.Array:
    """Make a valid column, so that the other ones are checked, or one of any type."""
    if rnd.randrange(2):
        return any_column(rnd, rows)
    if name in ("lon", "lat"):
        return pa.array([rnd.uniform(-90, 90) for _ in range(rows)])
    if name in ("bbox", "circle", "geometry"):
        return pa.array([[0.0, 0.0, 1.0, 1.0] if name == "bbox" else None] * rows, pa.list_(pa.float64()))
    texts = {"op": "insert", "ts": "2026-01-01", "created_at": None, "expires_at": None, "at": None, "keywords": "tea"}
    return pa.array([texts.get(name, f"{name}{n}") for n in range(rows)], pa.string())


def test_csv_of_any_texts(tmp_path: Path) -> None:
    for number, rnd in cases("csv", 60):
        path = tmp_path / "objects.csv"
        end = rnd.choice(("\n", "\r\n", "\r"))
        rows = [_csv_row(rnd, list(row.values())) for row in worlds.object_log(rnd, 12)]
        path.write_bytes(end.join([",".join(worlds.OBJECT_FIELDS), *rows]).encode("utf-8", "surrogatepass"))
        with trying(("csv", number)):
            _check_all_rows(path, read("objects", path, tmp_path / "staged", **rnd.choice(OPTIONS)))


def _csv_row(rnd: random.Random, values: list[Any]) -> str:
    for _ in range(rnd.randrange(3)):
        values[rnd.randrange(len(values))] = rnd.choice(TEXTS)
    quoted = ['"' + str(value).replace('"', '""') + '"' if rnd.randrange(3) == 0 else str(value) for value in values]
    return ",".join(quoted[: rnd.choice((5, 5, 5, 5, 4))])
