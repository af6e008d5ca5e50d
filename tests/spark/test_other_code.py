"""Tasks do nothing on a node that runs other code than the driver; the error names the node."""

import os
from pathlib import Path

import pytest

from pststream.base.errors import RetryableError
from pststream.engine import code_version
from pststream.engine.running_engine import get_engine
from pststream.engine.spark_session import EngineSession
from pststream.settings import Settings

pytestmark = pytest.mark.spark


@pytest.mark.deep
def test_a_node_with_other_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = get_engine(Settings(engine="spark", spark_master="local[2]"))
    folder = str(tmp_path)
    assert len(engine.run_tasks([1, 2], lambda number: os.mkdir(f"{folder}/{number}"))) == 2
    monkeypatch.setattr(EngineSession, "expected_code", lambda _: "the digest of a newer image")
    with pytest.raises(RetryableError, match=code_version.OTHER_CODE):
        engine.run_tasks([3], lambda number: os.mkdir(f"{folder}/{number}"))
    assert sorted(os.listdir(folder)) == ["1", "2"]
