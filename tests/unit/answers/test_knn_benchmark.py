"""The benchmark of standing `knn` queries measures all it names."""

import pytest

from benchmarks.scenarios.answers import knn
from tests.counted_benchmark import run_counted


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(knn.SIZES, "small", (100, 300))
    monkeypatch.setitem(knn.STORED, "small", 500)
    monkeypatch.setitem(knn.VARIED, "small", (50, 100))
    monkeypatch.setitem(knn.CONTINUOUS, "small", (50, 100))
    monkeypatch.setitem(knn.SOURCE, "small", 200)
    monkeypatch.setitem(knn.BATCHES, "small", 1)
    monkeypatch.setattr(knn, "WORKERS", 2)
    monkeypatch.setattr(knn, "VARIATIONS", {"place_k_3": ("place", 3, 2), "twitter_workers_3": ("twitter", 10, 3)})


def test_the_benchmark_measures_all_it_names() -> None:
    document = run_counted("knn")
    figures = document["figures"]
    assert set(knn.TARGETS) <= set(figures) and document["floor"]["one_object_seconds"] > 0
    # A time-stamp has 100 new answers, and each deletion takes one away.
    assert figures["changes_per_object"] >= 0.2 and figures["candidates_per_object"] > 0
    assert figures["seconds_at_100"] > 0 and figures["insert_100_seconds"] > 0
    for name in ("place_k_3", "twitter_workers_3", "ckq"):
        assert figures[f"{name}_kernel_and_fold_ms"] > 0
    assert figures["made_up_subscriptions"] == 500 * 8
    for name in ("index", "answers", "requests"):
        assert figures[f"{name}_bytes_per_subscription"] > 0
