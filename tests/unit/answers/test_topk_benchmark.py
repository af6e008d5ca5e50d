"""The benchmark of standing `topk` queries measures all it names, and fails if variants find other pairs."""

import pytest

from benchmarks.scenarios.answers import topk
from pststream.kernels.scored.index_arrays import IndexArrays
from tests.counted_benchmark import run_counted


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_benchmark_measures_all_it_names() -> None:
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
