"""A replay on Spark finds the recorded matches and stores the same subscriptions as in this process."""

from pathlib import Path

import pytest

from pststream.engine import spark_server
from pststream.engine.running_engine import get_engine
from pststream.pipeline.replan import compare_planners
from pststream.settings import Settings
from tests.replayed import changing_home, replayed

pytestmark = [pytest.mark.spark, pytest.mark.deep]

NAMES = ("matches", "retractions", "subscriptions_stored", "worker_subscriptions")
"""Counts that do not depend on the state of a process: its Bloom filter decides which objects are sent in vain."""


def test_both_engines_count_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, _ = changing_home(tmp_path)
    monkeypatch.setattr(spark_server._Log, "home", None)  # Spark, if it starts here, does not log to the home
    get_engine(Settings(engine="spark", spark_master="local[2]"))
    documents = []
    for engine, elsewhere in (("local", False), ("spark", False), ("spark", True)):
        monkeypatch.setenv("PSTSTREAM_ENGINE", engine)
        if elsewhere:  # the scratch home is in the home
            monkeypatch.setattr(compare_planners, "runs_elsewhere", lambda _: True)
        documents.append(replayed(home, "--last", "3", "--planner", "hybrid"))
    assert all(one["matches_equal"] for one in documents)
    sides = [{name: one["would_be"][name] for name in NAMES} for one in documents]
    assert sides[0] == sides[1] == sides[2]
