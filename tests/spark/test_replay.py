"""A replay on Spark finds the recorded matches and counts what it counts in threads of the process."""

from pathlib import Path

import pytest

from tests.replayed import changing_home, replayed

pytestmark = pytest.mark.spark


def test_both_engines_count_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, _ = changing_home(tmp_path)
    documents = []
    for engine in ("local", "spark"):
        monkeypatch.setenv("PSTSTREAM_ENGINE", engine)
        documents.append(replayed(home, "--last", "3", "--planner", "hybrid"))
    here, there = documents
    assert here["matches_equal"] and there["matches_equal"]
    for name in ("objects_sent", "candidates", "discarded", "subscriptions_stored", "worker_objects"):
        assert here["would_be"][name] == there["would_be"][name]
