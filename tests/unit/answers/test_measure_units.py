"""The fastest of several searches counts."""

import itertools

import pytest

from pststream.answers.topk_units import SEARCHES, time_fastest


@pytest.mark.parametrize("seconds", itertools.permutations((0.5, 2.0, 3.0)))
def test_the_fastest_of_the_searches_counts(seconds: tuple[float, ...]) -> None:
    now, done = [100.0], []

    def search() -> int:
        now[0] += seconds[len(done)]
        done.append(7)
        return len(done)

    assert time_fastest(search, lambda: now[0]) == (0.5, SEARCHES) and len(done) == SEARCHES == len(seconds)


def test_a_search_that_the_clock_does_not_see_takes_a_nanosecond() -> None:
    assert time_fastest(lambda: 3, lambda: 1.0) == (1e-9, 3)
