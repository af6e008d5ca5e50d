"""Evaluations are asked for in parts, so that their values fit into memory whatever `k` is."""

import numpy as np
import pytest

from pststream.pipeline.answers import fold_bucket


@pytest.mark.parametrize("seed", range(4))
def test_parts_of_an_evaluation_have_bounded_sizes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_bucket, "ASKED", 20)
    monkeypatch.setattr(fold_bucket, "ASKED_VALUES", 100)
    kept = np.random.default_rng(seed).choice(np.array([1, 2, 30, 200], np.int32), 300, p=[0.7, 0.2, 0.07, 0.03])
    parts = [kept[some] for some in fold_bucket._split_asked(kept)]
    assert np.array_equal(np.concatenate(parts), kept)
    assert all(len(part) <= 20 and (part.sum() <= 100 or len(part) == 1) for part in parts)
    assert 15 <= len(parts) < 80
    assert not list(fold_bucket._split_asked(kept[:0]))
