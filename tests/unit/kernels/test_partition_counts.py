"""The choice of partition counts against all choices."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.kernels.planning.assign_nodes import choose_partition_counts


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_no_other_choice_is_better(nodes: int, spare: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    max_counts = rng.integers(1, spare + 2, nodes)
    start = np.concatenate([[0], np.cumsum(max_counts)])
    loads = rng.integers(0, 50, start[-1]).astype(np.float64)
    counts = choose_partition_counts(start, loads, nodes + spare)
    ways = [way for way in product(*(range(1, k + 1) for k in max_counts)) if sum(way) <= nodes + spare]
    sums = [sum(loads[start[i] + k - 1] for i, k in enumerate(way)) for way in ways]
    assert tuple(counts) in ways
    assert sum(loads[start[i] + k - 1] for i, k in enumerate(counts)) == min(sums)


def test_all_partitions_are_used_among_equal_sums() -> None:
    assert choose_partition_counts(np.array([0, 3, 6]), np.zeros(6), 4).sum() == 4


@given(st.lists(st.sampled_from((-1e-16, 0.0, 1e-16, 1e-15)), min_size=9, max_size=9))
def test_equal_sums_that_are_rounded_differently_are_equal(noise: list[float]) -> None:
    """Three nodes alike share seven partitions: in any order 3, 2 and 2 have the least sum."""
    loads = np.tile([7.3, 4.1, 3.7], 3) * (1.0 + np.array(noise))
    assert choose_partition_counts(np.array([0, 3, 6, 9]), loads, 7).tolist() == [3, 2, 2]
