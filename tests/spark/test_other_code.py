"""Tasks of a node with other code than the driver's do nothing, and the command says which node it is."""

import os
from pathlib import Path

import pytest

from pststream.errors import RetryableError
from pststream.pipeline.engine import code_version, spark_tasks
from pststream.pipeline.engine.spark_session import get_context
from pststream.pipeline.engine.spark_tasks import run_tasks
from pststream.settings import Settings

pytestmark = pytest.mark.spark


def test_a_node_with_other_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = get_context(Settings(spark_master="local[2]"))
    folder = str(tmp_path)
    assert len(run_tasks(context, [1, 2], lambda number: os.mkdir(f"{folder}/{number}"))) == 2
    monkeypatch.setattr(spark_tasks, "is_local", lambda _: False)
    monkeypatch.setattr(code_version, "code", lambda: "that of a newer image")
    with pytest.raises(RetryableError, match=code_version.OTHER_CODE):
        run_tasks(context, [3], lambda number: os.mkdir(f"{folder}/{number}"))
    assert sorted(os.listdir(folder)) == ["1", "2"]
