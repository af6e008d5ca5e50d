"""The benchmark of DSkype's partitioners measures all of them, and fails if one of them finds other pairs."""

import numpy as np
import pytest

from benchmarks.scenarios.answers import topk_planners
from benchmarks.support.answers import topk_worlds
from benchmarks.support.answers.topk_worlds import make_worlds
from pststream.answers import topk_units
from pststream.answers.scored_index import ScoredIndex
from pststream.base import names
from tests.counted_benchmark import run_counted


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(topk_planners.SIZES, "small", (400, 300, 60))
    monkeypatch.setitem(topk_planners.SWEPT_SIZES, "small", (200,))


def test_the_benchmark_measures_all_planners() -> None:
    figures = run_counted("topk-planners")["figures"]
    for stream in topk_planners.DATA:
        of = {name: {key: figures[f"{stream}_{name}_{key}"] for key in ("replication", "copies", "pairs")}
              for name in names.TOPK_PLANNERS}  # fmt: skip
        assert of["hash"]["replication"] == of["location"]["replication"] == 1.0
        assert of["hash"]["copies"] == of["location"]["copies"] == topk_planners.UNITS["small"]
        assert 1.0 <= of["prefix"]["replication"] <= of["keyword"]["replication"]
        assert of["prefix"]["copies"] <= of["hash"]["copies"]
        assert of["hash"]["pairs"] > 0
    assert figures["first_4_spatial_first_replication"] == 1.0
    assert figures["first_1_spatial_first_replication"] == figures["tweets_prefix_replication"]
    assert {f"k_10_{name}_throughput" for name in topk_planners.SWEPT_PLANNERS} < set(figures)


def test_planners_that_lose_pairs_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = topk_units.measure_unit
    monkeypatch.setattr(
        topk_units,
        "measure_unit",
        lambda index, messages: measured(index, topk_units.take_messages(messages, slice(1, None))),
    )
    with pytest.raises(ValueError, match="different pairs"):
        run_counted("topk-planners")


def test_thresholds_are_those_of_full_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk_worlds, "SLICE", 25)
    worlds = make_worlds(topk_planners.DATA["gn"], (60, 250, 10), (5, 3), topk_planners.QueryWords(5), 3)
    index, window = ScoredIndex(), worlds[0].window
    index.insert(worlds[0].subscriptions._replace(threshold=np.full(60, np.inf, np.float32)))
    found = index.find_candidates(window)
    for world, kept in zip(worlds, (5, 3), strict=True):
        some = world.subscriptions
        for key, threshold in zip(some.key.tolist(), some.threshold.tolist(), strict=True):
            values = sorted(found.value[found.subscription == key].tolist())
            assert threshold == (values[kept - 1] if len(values) >= kept else float("inf"))
