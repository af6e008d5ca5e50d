"""Search in sorted arrays against NumPy and sets."""

import numpy as np
import pytest

from pststream.kernels.answers.fold_rows import rows_of_keys
from pststream.kernels.sort_and_search import find_near

SPREADS = {
    "even": lambda rng, size: rng.integers(0, 20 * size + 1, size),
    "dense": lambda rng, size: np.arange(size) + (1 << 40),
    "far_last": lambda rng, size: np.append(rng.integers(0, 20 * size + 1, size), 2**63 - 1),
    "two_heaps": lambda rng, size: np.append(np.arange(size), np.arange(size) + (1 << 61)),
}


@pytest.mark.parametrize("low", [0, 3, 8])
def test_the_first_position_is_found_from_every_guess(low: int) -> None:
    values = np.array([2, 2, 3, 7, 7, 7, 9, 30])
    for wanted in range(1, 32):
        expected = low + np.searchsorted(values[low:], wanted)
        assert all(find_near(values, low, guess, wanted) == expected for guess in range(low - 1, len(values)))


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("size", [0, 1, 2, 3_000])
@pytest.mark.parametrize("share", [0.01, 0.3])
def test_rows_of_keys_are_found_however_keys_are_spread(spread: str, size: int, share: float) -> None:
    rng = np.random.default_rng(size)
    keys = np.unique(SPREADS[spread](rng, size))
    most = int(keys.max(initial=5))
    wanted = np.sort(np.concatenate([keys[rng.random(len(keys)) < share], rng.integers(0, most, 50), [0, most, most]]))
    row_of = {key: row for row, key in enumerate(keys.tolist())}
    assert rows_of_keys(keys, wanted).tolist() == [row_of.get(key, -1) for key in wanted.tolist()]
