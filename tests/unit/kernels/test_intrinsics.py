"""The instructions that kernels use have the meaning of their plain twins."""

import numpy as np

from pststream.kernels import intrinsics
from pststream.kernels.compile import kernel

WORDS = np.concatenate(
    [
        np.array([0, 1, 2, 2**63, 2**64 - 1, 2**64 - 2, 0x5555555555555555, 0xAAAAAAAAAAAAAAAA], np.uint64),
        np.random.default_rng(1).integers(0, 2**64, 1_000, np.uint64),
        np.uint64(1) << np.arange(64, dtype=np.uint64),
    ]
)


@kernel
def _count_all(words):
    counts = np.empty(len(words), np.uint64)
    for i in range(len(words)):
        counts[i] = intrinsics.count_bits(words[i])
    return counts


@kernel
def _sum_rows(rows, ahead):
    total = 0
    for i in range(len(rows)):
        intrinsics.prefetch(rows, min(i + ahead, len(rows) - 1))
        total += rows[i, 0]
    return total


def test_bits_are_counted_as_by_the_plain_twin_and_by_python() -> None:
    expected = [int(word).bit_count() for word in WORDS]
    assert _count_all(WORDS).tolist() == expected
    with np.errstate(over="ignore"):
        assert intrinsics.plain_count_bits(WORDS).tolist() == expected


def test_prefetching_rows_of_any_strides_changes_nothing() -> None:
    rows = np.arange(400, dtype=np.int64).reshape(100, 4)
    assert _sum_rows(rows, 16) == rows[:, 0].sum()
    assert _sum_rows(rows[::3, 1:], 16) == rows[::3, 1].sum()
    assert intrinsics.plain_prefetch(rows, 99) is None
