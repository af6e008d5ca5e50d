"""The benchmark of placing measures batches after each number of subscriptions, with and without placing."""

import pytest

from benchmarks.scenarios.plans import placing
from tests.counted_benchmark import run_counted


def test_each_size_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(placing.SIZES, "small", (100, 300))
    monkeypatch.setattr(placing, "BATCHES", 1)
    monkeypatch.setattr(placing, "INSERTIONS", 50)
    monkeypatch.setattr(placing, "OBJECTS", 50)
    document = run_counted("placing")
    figures, floor = document["figures"], document["floor"]
    assert list(floor) == ["cpu_seconds_at_100", "cpu_seconds_at_300"]
    assert min(floor.values()) > 0
    expected = figures["cpu_seconds_at_300"] / figures["cpu_seconds_at_100"]
    assert figures["growth"] == pytest.approx(expected, rel=0.05)
