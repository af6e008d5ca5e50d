"""An unforeseen error of a reader concerns its file alone; errors of the machine stop the ingest."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pststream.pipeline.ingest import stage_file


@pytest.fixture
def file(tmp_path: Path) -> dict[str, Any]:
    return {"file_seq": 1, "path": str(tmp_path / "a.jsonl"), "options": json.dumps({"format": "jsonl"})}


def raising(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def parts(*_: Any) -> Iterator[pa.RecordBatch]:
        raise error
        yield

    monkeypatch.setattr(stage_file, "_parse", parts)


def test_an_unforeseen_error_names_the_file(
    tmp_path: Path, file: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(ZeroDivisionError("by nought\nand more"), monkeypatch)
    staged = stage_file.stage_file("objects", str(tmp_path), dt.datetime.now(dt.UTC), file)
    assert staged.problem is not None
    path, reason, _ = staged.problem
    assert (
        path == file["path"] and "ZeroDivisionError in test_stage_file.py:" in reason and reason.endswith("by nought")
    )


@pytest.mark.parametrize("error", [OSError("no space left"), MemoryError()])
def test_an_error_of_the_machine_is_not_one_of_the_file(
    tmp_path: Path, file: dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    raising(error, monkeypatch)
    with pytest.raises(type(error)):
        stage_file.stage_file("objects", str(tmp_path), dt.datetime.now(dt.UTC), file)
