"""The benchmarks of standing queries measure all they name, and fail if two ways or variants have different answers."""

import pytest

from benchmarks.scenarios.answers import frequent_terms, knn, topk
from pststream.kernels.scored.index_arrays import IndexArrays
from tests.counted_benchmark import run_counted

pytestmark = pytest.mark.deep


@pytest.fixture(autouse=True)
def tiny_knn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(knn.SIZES, "small", (100, 300))
    monkeypatch.setitem(knn.STORED, "small", 500)
    monkeypatch.setitem(knn.VARIED, "small", (50, 100))
    monkeypatch.setitem(knn.CONTINUOUS, "small", (50, 100))
    monkeypatch.setitem(knn.SOURCE, "small", 200)
    monkeypatch.setitem(knn.BATCHES, "small", 1)
    monkeypatch.setattr(knn, "WORKERS", 2)
    monkeypatch.setattr(knn, "VARIATIONS", {"place_k_3": ("place", 3, 2), "twitter_workers_3": ("twitter", 10, 3)})


def test_the_benchmark_of_knn_measures_all_it_names() -> None:
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


@pytest.fixture(autouse=True)
def tiny_topk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(topk.SIZES, "small", (100, 300))
    monkeypatch.setitem(topk.WINDOW, "small", 1_000)
    monkeypatch.setitem(topk.MESSAGES, "small", 100)
    monkeypatch.setitem(topk.BATCHES, "small", 1)
    monkeypatch.setitem(topk.SWEPT, "small", (50, 200))
    monkeypatch.setitem(topk.SOURCE, "small", 300)
    monkeypatch.setitem(topk.PRUNED, "small", 200)
    monkeypatch.setattr(topk, "KEPT", (20, 40))
    sweep = {"k_5": topk.Query(5, topk.WORDS, 100), "timed": topk.Query(20, topk.WORDS, 100, timed=True)}
    monkeypatch.setattr(topk, "_sweeps", lambda _: sweep)


def test_the_benchmark_of_topk_measures_all_it_names() -> None:
    figures = run_counted("topk")["figures"]
    assert set(topk.TARGETS) <= set(figures)
    assert figures["rate_at_100"] > 0 and figures["written_bytes_per_message"] > 0
    assert figures["candidates_per_message"] > 0 and figures["k_5_kernel_and_fold_rate"] > 0
    assert figures["all_prunings_scored"] <= figures["without_location_aware_prefix_scored"]
    assert figures["kept_20_evaluations_per_turnover"] > figures["kept_40_evaluations_per_turnover"]
    assert figures["policy_kmax_buffer_size"] > figures["policy_cskyband_buffer_size"]
    assert figures["kernel_and_fold_rate_of_cores"] >= figures["kernel_and_fold_rate"] > 0


def test_variants_with_other_pairs_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_enters(segment: IndexArrays) -> IndexArrays:
        return segment._replace(posting_offsets=segment.posting_offsets * 0, chunk_offsets=segment.chunk_offsets * 0)

    monkeypatch.setattr(topk, "VARIANTS", {"all": nothing_enters})
    with pytest.raises(ValueError, match="two variants"):
        run_counted("topk")


@pytest.fixture(autouse=True)
def tiny_frequent_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(frequent_terms.SIZES, "small", (1_500, 3_000))
    monkeypatch.setitem(frequent_terms.REGIONS, "small", 300)
    monkeypatch.setitem(frequent_terms.CURVES, "small", {"1m": (50,), "10m": (400,)})


def test_the_benchmark_of_frequent_terms_measures_all_it_names() -> None:
    figures = run_counted("frequent-terms")["figures"]
    assert set(frequent_terms.TARGETS) <= set(figures)
    for name in ("step_1h_reports", "step_1m_reports"):
        assert 250 < figures[name] <= 300
    assert figures["step_1m_reports_of_50_regions"] <= 50 < 300 < figures["step_10m_reports_of_400_regions"] <= 400
    assert {"step_1m_regions_in_half", "step_10m_regions_in_half"} <= set(figures)
    assert figures["step_1h_reports_at_1500"] > 250
    assert figures["step_1h_batch_objects"] == 3_000 // 72 // 2 * 2 and figures["compared_regions"] > 30


def test_ways_with_different_answers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {"single": frequent_terms.COUNT_WAYS["single"]}
    ways["other"] = lambda *asked: ways["single"](*asked[:-1], asked[-1] // 2)
    monkeypatch.setattr(frequent_terms, "COUNT_WAYS", ways)
    with pytest.raises(ValueError, match="two ways"):
        run_counted("frequent-terms")
