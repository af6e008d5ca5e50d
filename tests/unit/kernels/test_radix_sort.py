"""Sorting by radix against NumPy's stable sort."""

import numpy as np
import pytest

from pststream.kernels.sort_and_search import sort_values, sort_with

SIZES = (0, 1, 2, 5_000)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("low", "high"), [(30, 64), (0, 11), (7, 29)])
def test_values_are_sorted_by_some_of_their_bits(size: int, low: int, high: int) -> None:
    values = np.random.default_rng(size).integers(0, 2**64, size, np.uint64)
    values[: size // 2] >>= np.uint64(20)
    digits = (values >> np.uint64(low)) & np.uint64((1 << (high - low)) - 1)
    expected = values[np.argsort(digits, kind="stable")]
    assert sort_values(values, low, high).tolist() == expected.tolist()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bits", [1, 12, 61])
def test_numbers_follow_their_keys_and_equal_keys_keep_their_order(size: int, bits: int) -> None:
    keys = np.random.default_rng(size).integers(0, 1 << bits, size)
    keys[: size // 3] = keys[size // 3 : 2 * (size // 3)]
    order = np.argsort(keys, kind="stable")
    found, numbers = sort_with(keys.copy(), np.arange(size, dtype=np.int32), bits)
    assert found.tolist() == keys[order].tolist() and numbers.tolist() == order.tolist()
