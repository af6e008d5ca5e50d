"""A file that is read in parts, however small, has the rows, row numbers, rejects and problem of one reader."""

import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import pytest

from pststream.engine.local_engine import LocalEngine
from pststream.input import csv_reader, file_parts, json_reader, parquet_reader
from pststream.pipeline.ingest import stage_file as staging
from pststream.pipeline.ingest.stage_file import SCHEMAS, StagedFile, _split_files, stage_file, stage_in_parts
from pststream.pipeline.ingest.staged_rows import read_staged
from tests import worlds
from tests.file_options import WITHOUT_BOUNDS
from tests.fuzz.cases import cases, scale, trying
from tests.fuzz.mutations import mutated

pytestmark = pytest.mark.slow

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
HOSTILE = ('"', '""', ",", "\n", "\r", "\r\n", "\n\n", "x", "é", " ", '"\n', '\n"', '","', "x" * 60, '"' + "\n" * 40)


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (csv_reader, json_reader, file_parts):
        monkeypatch.setattr(module, "BLOCK_BYTES", 90)
        monkeypatch.setattr(module, "MAX_ROW_BYTES", 900)
    for module in (csv_reader, json_reader, parquet_reader):
        monkeypatch.setattr(module, "MAX_CHUNK_ROWS", 7)
    monkeypatch.setattr(file_parts, "CUT_BYTES", 50)


def rows_of(staged: StagedFile, kind: str) -> list[dict[str, Any]]:
    """Return all columns of the staged rows, ordered by row, and delete the staged files."""
    rows = [row for batch in read_staged(staged.parts, SCHEMAS[kind].names) for row in batch.to_pylist()]
    for part in staged.parts:
        Path(part.path).unlink()
    return sorted(rows, key=lambda row: row["row"])


def check(
    kind: str, path: Path, part_bytes: int, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any] | None = None
) -> tuple[bool, int]:
    """Compare the readers of parts with one reader; return whether it refuses the file, and the number of parts."""
    settings = WITHOUT_BOUNDS | {"max_text_bytes": 300}
    reading = json.dumps(settings | (options or {}))
    file = {"file_seq": 1, "sha256": "0" * 64, "path": str(path), "options": reading, "bytes": path.stat().st_size}
    monkeypatch.setattr(staging, "choose_part_bytes", lambda sizes: part_bytes)
    folder = str(path.parent / "staged")
    (split,) = stage_in_parts(LocalEngine(), kind, folder, NOW, [file])
    whole = stage_file(kind, folder, NOW, file)
    parts = len(_split_files(LocalEngine(), [file]))
    split_rows, rows = rows_of(split, kind), rows_of(whole, kind)
    if path.suffix == ".parquet" and whole.problem:  # the text names the rows of a part
        assert split.problem
    else:
        assert split.problem == whole.problem
    if not whole.problem:
        assert split_rows == rows
        assert (split.last_row, split.max_time, split.faults) == (whole.last_row, whole.max_time, whole.faults)
    return whole.problem is not None, parts


@pytest.mark.parametrize("kind", ["objects", "requests"])
def test_mutated_files_in_parts(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = split = 0
    formats = ("csv", "jsonl", "parquet") if kind == "objects" else ("jsonl", "parquet")
    for number, rnd in cases(f"parts of {kind}", 300):
        path = tmp_path / f"{kind}.{rnd.choice(formats)}"
        log = worlds.object_log if kind == "objects" else worlds.request_log
        content = worlds.write_rows(path, log(rnd, rnd.randrange(25))).read_bytes()
        path.write_bytes(mutated(rnd, content) if rnd.randrange(4) else content)
        options = rnd.choice(({}, {"columns": [["object_id", ["@row"]]]})) if kind == "objects" else {}
        with trying((kind, path.suffix, number)):
            problem, parts = check(kind, path, rnd.choice((8, 30, 200, 1000)), monkeypatch, options)
            refused, split = refused + problem, split + (parts > 1)
    assert refused and split, "cases of both kinds"


def test_hostile_csv_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotes, line ends and commas anywhere: cuts are in quotes, in line ends, in blank lines."""
    path = tmp_path / "x.csv"
    split = 0
    for number, rnd in cases("hostile csv", 300):
        path.write_bytes(_hostile_csv(rnd))
        options = {"columns": [["object_id", ["a"]], ["text", ["b"]]], "constants": CONSTANTS}
        with trying(number):
            _, parts = check("objects", path, rnd.choice((4, 9, 30, 100)), monkeypatch, options)
            split += parts > 1
    assert split > scale(50)


CONSTANTS = [["ts", "2026-01-01"], ["lon", "1"], ["lat", "2"]]


def _hostile_csv(rnd: random.Random) -> bytes:
    end = rnd.choice(("\n", "\n", "\r\n", "\r"))
    rows = [end.join(("a,b", ""))]
    for number in range(rnd.randrange(60)):
        body = "".join(rnd.choice(HOSTILE) for _ in range(rnd.randrange(4)))
        quoted = '"' + body.replace('"', '""') + '"'
        stray = rnd.randrange(20) == 0
        rows.append(f"{number},{body if stray else rnd.choice((quoted, quoted, 'plain'))}{end}")
    return (rnd.choice(("", "", "\ufeff")) + "".join(rows)).encode()


def test_blank_lines_of_json_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = '{"object_id": "1", "ts": "2026-01-01", "lon": 1, "lat": 2, "text": "tea"}'
    path = tmp_path / "x.jsonl"
    for start in ("", "\n" * 50, "\ufeff", " \r\n" * 20, "[]\n", '{"id": 1}\n'):
        path.write_text(start + (line + "\n" * 3) * 9 + line)
        problem, parts = check("objects", path, 20, monkeypatch)
        assert parts > 3 and not problem
