"""A landed file that a node does not see is not a bad file: the ingest fails and may be run again."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from pststream.base.errors import InputFileError, RetryableError
from pststream.base.progress import no_progress
from pststream.pipeline.ingest import ingest_transaction
from pststream.settings import Settings
from pststream.state.home import Home
from tests.file_options import WITHOUT_BOUNDS


def stage_on_a_node(path: Path, there: bool, monkeypatch: pytest.MonkeyPatch, hold: bool) -> Any:
    """Stage a file that the node does not see; `there`: the driver sees it afterwards."""

    class OneNode:
        def run_tasks(self, files: Any, function: Any, ended: Any, seconds: Any) -> Any:
            staged = [function(file) for file in files]
            if there:
                path.write_text("object_id\n")
            return staged

    monkeypatch.setattr(ingest_transaction, "get_engine", lambda _: OneNode())
    options = json.dumps(WITHOUT_BOUNDS)
    file = {"kind": "objects", "path": str(path), "started_at": dt.datetime.now(dt.UTC), "file_seq": 1, "bytes": 1}
    file |= {"options": options, "sha256": "0"}
    return ingest_transaction.stage_files(Home(path.parent / "home"), Settings(), [file], no_progress, hold)


@pytest.mark.parametrize("hold", [False, True])
def test_a_file_that_is_there_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: bool) -> None:
    with pytest.raises(RetryableError, match="a node does not see it"):
        stage_on_a_node(tmp_path / "objects.csv", True, monkeypatch, hold)


def test_a_file_that_is_gone_is_reported_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputFileError, match="no such file"):
        stage_on_a_node(tmp_path / "objects.csv", False, monkeypatch, False)
    (staged,) = stage_on_a_node(tmp_path / "objects.csv", False, monkeypatch, True)
    assert not staged.exists
