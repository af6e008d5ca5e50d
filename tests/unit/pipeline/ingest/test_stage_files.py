"""A reader that meets what nobody foresaw costs its file, not the others; a machine's troubles stay its own."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pststream.pipeline.ingest import stage_files


@pytest.fixture
def file(tmp_path: Path) -> dict[str, Any]:
    return {"file_seq": 1, "path": str(tmp_path / "a.jsonl"), "options": json.dumps({"format": "jsonl"})}


def raising(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def parts(*_: Any) -> Iterator[pa.RecordBatch]:
        raise error
        yield

    monkeypatch.setattr(stage_files, "_parts", parts)


def test_the_fault_is_told_of_the_file(tmp_path: Path, file: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    raising(ZeroDivisionError("by nought\nand more"), monkeypatch)
    staged = stage_files.stage_file("objects", str(tmp_path), dt.datetime.now(dt.UTC), file)
    assert staged.problem is not None
    path, reason, _ = staged.problem
    assert (
        path == file["path"] and "ZeroDivisionError in test_stage_files.py:" in reason and reason.endswith("by nought")
    )


@pytest.mark.parametrize("error", [OSError("no space left"), MemoryError()])
def test_what_the_machine_lacks_is_no_fault_of_the_file(
    tmp_path: Path, file: dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    raising(error, monkeypatch)
    with pytest.raises(type(error)):
        stage_files.stage_file("objects", str(tmp_path), dt.datetime.now(dt.UTC), file)
