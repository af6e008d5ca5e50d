"""A landed file that a node does not see is no bad file: the ingest fails, and may be run again as it is."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from pststream.errors import InputFileError, RetryableError
from pststream.pipeline.ingest import ingest
from pststream.settings import Settings
from pststream.state.home import Home


def staged_by_a_node(path: Path, there: bool, monkeypatch: pytest.MonkeyPatch, hold: bool) -> Any:
    """Stages a file by a task before which it is hidden; `there`: the driver sees it again."""

    class OneNode:
        def run_tasks(self, files: Any, function: Any) -> Any:
            staged = [function(file) for file in files]
            if there:
                path.write_text("object_id\n")
            return staged

    monkeypatch.setattr(ingest, "get_engine", lambda _: OneNode())
    options = '{"format": "csv", "columns": [], "constants": [], "timezone": "UTC", "max_text_bytes": 1}'
    file = {"kind": "objects", "path": str(path), "at": dt.datetime.now(dt.UTC), "file_seq": 1, "options": options}
    return ingest._staged(Home(path.parent / "home"), Settings(), [file], hold)


@pytest.mark.parametrize("hold", [False, True])
def test_a_file_that_is_there_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: bool) -> None:
    with pytest.raises(RetryableError, match="a node does not see it"):
        staged_by_a_node(tmp_path / "objects.csv", True, monkeypatch, hold)


def test_a_file_that_is_gone_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputFileError, match="no such file"):
        staged_by_a_node(tmp_path / "objects.csv", False, monkeypatch, False)
    (staged,) = staged_by_a_node(tmp_path / "objects.csv", False, monkeypatch, True)
    assert not staged.seen
