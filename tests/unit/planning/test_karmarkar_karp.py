"""The differencing method against a plain one, an example by hand, and the best division of few numbers."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.planning.papers.karmarkar_karp import divide_evenly
from tests.oracles.sstd import differencing


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 9))
def test_equals_the_plain_method(numbers: list[int], parts: int) -> None:
    part = divide_evenly(np.array(numbers, np.float64), parts)
    assert part.dtype == np.int64
    divided = [set(np.flatnonzero(part == number).tolist()) for number in range(int(part.max(initial=-1)) + 1)]
    assert divided == sorted(differencing(numbers, parts), key=min)


def test_the_example_of_the_literature() -> None:
    """8, 7, 6, 5, 4: differences 1, 6, 5, 4, then 1, 1, 4, then 3, 1, then 2; the best would be 0."""
    part = divide_evenly(np.array([8.0, 7.0, 6.0, 5.0, 4.0]), 2)
    sums = np.bincount(part, [8.0, 7.0, 6.0, 5.0, 4.0])
    assert sorted(sums.tolist()) == [14.0, 16.0]


@pytest.mark.parametrize("seed", range(20))
def test_is_near_the_best_division(seed: int) -> None:
    """Eight numbers in three parts: the greatest sum is at most 7/6 of the best."""
    numbers = np.random.default_rng(seed).integers(1, 100, 8).astype(np.float64)
    best = min(np.bincount(choice, numbers, 3).max() for choice in product(range(3), repeat=8))
    assert np.bincount(divide_evenly(numbers, 3), numbers, 3).max() <= best * 7 / 6


def test_edges() -> None:
    assert divide_evenly(np.empty(0), 3).tolist() == []
    assert divide_evenly(np.array([5.0]), 3).tolist() == [0]
    assert divide_evenly(np.array([5.0, 1.0, 2.0]), 1).tolist() == [0, 0, 0]
    assert divide_evenly(np.array([1.0, 2.0]), 5).tolist() == [0, 1]
    assert np.bincount(divide_evenly(np.ones(64), 8)).tolist() == [8] * 8
