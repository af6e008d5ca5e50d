"""A replay on Spark finds the recorded matches and stores the same subscriptions as in this process."""

from pathlib import Path

import pytest

from tests.replayed import changing_home, replayed

pytestmark = [pytest.mark.spark, pytest.mark.deep]

NAMES = ("matches", "retractions", "subscriptions_stored", "worker_subscriptions")
"""Counts that do not depend on the state of a process: its Bloom filter decides which objects are sent in vain."""


def test_both_engines_count_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, _ = changing_home(tmp_path)
    documents = []
    for engine in ("local", "spark"):
        monkeypatch.setenv("PSTSTREAM_ENGINE", engine)
        documents.append(replayed(home, "--last", "3", "--planner", "hybrid"))
    here, there = documents
    assert here["matches_equal"] and there["matches_equal"]
    sides = [{name: one["would_be"][name] for name in NAMES} for one in documents]
    assert sides[0] == sides[1]
