"""Borrowed arrays are the same memory, and their owner stays the only one that frees it."""

import sys
from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import borrow


class Parts(NamedTuple):
    values: np.ndarray
    table: np.ndarray
    number: int


@kernel
def double_all(parts):
    parts = borrow(parts)
    for i in range(len(parts.values)):
        parts.values[i] *= parts.number
        parts.table[i, 1] += parts.table[i, 0]
    return len(parts.values)


@kernel
def call_twice(size):
    parts = Parts(np.ones(size), np.ones((size, 2), np.int32), 2)
    double_all(parts)
    double_all(parts)
    return parts.values, parts.table


def test_writes_reach_the_array_of_the_caller():
    table = np.arange(10, dtype=np.int32).reshape(5, 2)
    parts = Parts(np.arange(10.0)[::2], table, 2)
    counts = sys.getrefcount(parts.values), sys.getrefcount(table)
    assert double_all(parts) == 5
    assert parts.values.tolist() == [0, 4, 8, 12, 16]
    assert table[:, 1].tolist() == [1, 5, 9, 13, 17]
    assert (sys.getrefcount(parts.values), sys.getrefcount(table)) == counts


def test_arrays_made_by_a_calling_kernel_live_until_it_drops_them():
    for _ in range(50):
        values, table = call_twice(1000)
        assert set(values) == {4.0}
        assert set(table[:, 1]) == {3}
