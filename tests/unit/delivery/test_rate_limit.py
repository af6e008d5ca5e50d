"""The limiter finds the same pairs beyond the limit as counting one by one does."""

from collections import Counter

import numpy as np
import pytest

from pststream.delivery.messages import MessageLimiter


@pytest.mark.parametrize("seed", range(20))
def test_as_counted_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    limit = int(rng.integers(1, 6))
    limiter, counts = MessageLimiter(limit), Counter[int]()
    for _ in range(6):
        keys = rng.integers(0, 12, rng.integers(0, 30)) * 1_000_000_007
        expected = []
        for key in keys.tolist():
            counts[key] += 1
            expected.append(counts[key] > limit)
        assert limiter.count(keys).tolist() == expected
