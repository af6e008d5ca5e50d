"""Evaluations are asked for in parts, so that their values fit into memory whatever `k` is."""

import numpy as np
import pytest

from pststream.answers.contract import Asked, Changes, Folded, Thresholds, Values
from pststream.answers.fold import split_asked
from tests.fuzz.cases import seeds


def made_folded(kept: np.ndarray) -> Folded:
    key, one = np.arange(len(kept)), np.ones(1, np.int64)
    known = Values(one, one, one, one), Thresholds(one, one, one, one, one), Changes(one, one, one, one, one, one)
    return Folded(*known, Asked(key, kept, kept))


@seeds(4)
def test_parts_of_an_evaluation_have_bounded_sizes(seed: int) -> None:
    kept = np.random.default_rng(seed).choice(np.array([1, 2, 30, 200], np.int32), 300, p=[0.7, 0.2, 0.07, 0.03])
    folded = list(split_asked(made_folded(kept), 20, 100))
    parts = [part.asked.kept for part in folded]
    assert np.array_equal(np.concatenate(parts), kept)
    assert np.array_equal(np.concatenate([part.asked.subscription for part in folded]), np.arange(300))
    assert not len(parts[0])
    assert all(0 < len(part) <= 20 and (part.sum() <= 100 or len(part) == 1) for part in parts[1:])
    assert 15 <= len(parts) < 80


@pytest.mark.parametrize("asked", [0, 1, 50])
def test_what_is_known_is_in_the_first_part_alone(asked: int) -> None:
    parts = list(split_asked(made_folded(np.ones(asked, np.int32)), 20, 100))
    assert [len(part.asked.kept) for part in parts] == {0: [0], 1: [0, 1], 50: [0, 20, 20, 10]}[asked]
    rows = [[len(known.subscription) for known in part[:3]] for part in parts]
    assert rows == [[1, 1, 1], *[[0, 0, 0]] * (len(parts) - 1)]
