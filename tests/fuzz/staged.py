"""Read a file as an ingest task does, without Spark, and check the outcome of each row."""

import datetime as dt
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pststream.input.parse_times import EARLIEST_US, LATEST_US
from pststream.input.row_chunks import REASONS
from pststream.pipeline.ingest.stage_file import SCHEMAS, UNFORESEEN, StagedFile, stage_file
from pststream.pipeline.ingest.staged_rows import read_staged
from tests.file_options import WITHOUT_BOUNDS

BOUNDS = {"max_text_bytes": 1000, "max_id_bytes": 500, "max_payload_bytes": 2000, "max_expression_words": 20}
NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Read:
    """The outcome of a file: the reason if it was refused as a whole, or the numbers of accepted and rejected rows."""

    refused: str
    accepted: list[int]
    rejected: list[int]

    @property
    def rows(self) -> set[int]:
        """All accepted and rejected rows."""
        return {*self.accepted, *self.rejected}


def read(kind: str, path: Path, folder: Path, **options: Any) -> Read:
    """Read a file, and check that the rows fit the tables."""
    settings = WITHOUT_BOUNDS | BOUNDS | options
    staged = stage_file(
        kind, str(folder), NOW, {"file_seq": 1, "sha256": "0" * 64, "path": str(path), "options": json.dumps(settings)}
    )
    rows = [row for batch in read_staged(staged.parts, SCHEMAS[kind].names) for row in batch.to_pylist()]
    for part in staged.parts:
        Path(part.path).unlink()
    if staged.problem:
        assert staged.problem[1], "refused without a reason"
        assert UNFORESEEN not in staged.problem[1], staged.problem
        return Read(": ".join(staged.problem[1:2]), [], [])
    result = Read("", [r["row"] for r in rows if not r["reason"]], [r["row"] for r in rows if r["reason"]])
    assert len(result.rows) == len(rows) == staged.rows, "a row is there twice"
    _check_summary(staged, rows)
    for row in rows:
        if row["reason"]:
            assert row["reason"] in REASONS and row["detail"], row
        else:
            (_check_object if kind == "objects" else _check_request)(row)
    return result


def _check_summary(staged: StagedFile, rows: list[dict[str, Any]]) -> None:
    assert staged.last_row == max((row["row"] for row in rows), default=0)
    assert sum(staged.faults.values()) == sum(row["reason"] is not None for row in rows)


def _check_time(value: dt.datetime | None) -> None:
    assert value is not None and EARLIEST_US <= value.timestamp() * 1e6 < LATEST_US


def _check_object(row: dict[str, Any]) -> None:
    assert row["object_id"].strip() and len(row["object_id"].encode()) <= 500
    assert row["terms"] == sorted(set(row["terms"]))
    assert abs(row["lon"]) <= 180 and abs(row["lat"]) <= 90
    assert len(row["text"].encode()) <= 1000
    _check_time(row["ts"])


def _check_request(row: dict[str, Any]) -> None:
    assert row["op"] in ("insert", "delete", "replace") and row["subscription_id"]
    assert row["op"] == "delete" or len(row["subscription_id"].encode()) <= 500
    _check_time(row["effective_at"])
    if row["op"] != "delete":
        assert row["clauses"] and all(clause for clause in row["clauses"])
        edges = [value for name in ("west", "south", "east", "north", "circle") for value in row[name] or ()]
        edges += [value for ring in row["polygon"] or () for value in ring]
        assert (len(row["west"]) in (1, 2) or row["polygon"]) and all(math.isfinite(value) for value in edges)
    if row["payload"] is not None:
        assert isinstance(json.loads(row["payload"]), dict) and len(row["payload"].encode()) <= 2000
