"""The benchmark of freshness starts a watcher, feeds it, and tells how long each file took."""

import pytest

from pststream.benchmarks import freshness
from pststream.benchmarks.registry import run_benchmark
from pststream.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_each_file_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(freshness.SIZES, "small", (500, 6))
    monkeypatch.setattr(freshness, "WARM_FILES", 2)
    document = run_benchmark("freshness", "small", 1, Settings(spark_master="local[2]"), lambda _: None)
    figures = document["figures"]
    assert (figures["files"], figures["objects_per_second"]) == (4, 1000)
    assert 0 < figures["median_seconds"] <= figures["p99_seconds"] <= figures["max_seconds"]
    assert 1 <= figures["batches"] <= 7 and document["targets"] == {}
