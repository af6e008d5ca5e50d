"""Rows of answers are ordered by question, least value, newest, last in the log, whatever the numbers."""

import random

import numpy as np
import pytest

from pststream.search.best_objects import order_rows

VALUES = (0.0, -0.0, -0.5, -1.0, 1.0, 1e-45, 3e38, np.inf, 2.5)


def some_rows(rnd: random.Random, count: int, values: tuple[float, ...], times: int, step: int):
    question = np.array([rnd.randrange(5) * step for _ in range(count)], np.int64)
    value = np.array([rnd.choice(values) for _ in range(count)], np.float32)
    ts = np.array([rnd.randrange(-times, times) for _ in range(count)], np.int64)
    return question, value, ts, np.array(rnd.sample(range(10 * count), count), np.int64)


@pytest.mark.parametrize("values", [VALUES, (0.0,), (-0.0, 0.0)])
@pytest.mark.parametrize("times", [3, 1 << 40, 1 << 61])
@pytest.mark.parametrize("step", [1, 1 << 20])
def test_rows_are_ordered(values, times, step) -> None:
    rnd = random.Random(7)
    for count in (1, 2, 30, 400):
        columns = some_rows(rnd, count, values, times, step)
        order = order_rows(*columns).tolist()
        rows = list(zip(*(column.tolist() for column in columns)))
        assert order == sorted(range(count), key=lambda at: (*rows[at][:2], -rows[at][2], -rows[at][3]))


def test_no_rows() -> None:
    none = np.empty(0, np.int64)
    assert len(order_rows(none, np.empty(0, np.float32), none, none)) == 0
