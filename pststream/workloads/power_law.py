"""Map uniform random numbers to ranks of terms that follow the Zipf-Mandelbrot law."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class PowerLaw:
    """Rank r (from 0) of `size` has a probability in proportion to 1 / (r + 1 + shift) ** exponent.

    A greater `shift` flattens the head: the most frequent term is then less frequent.
    """

    size: int
    exponent: float = 1.0
    shift: float = 10.0

    def cumulative(self) -> np.ndarray:
        """Return cumulative probabilities: float64[size], the last is 1; the array is shared and read-only."""
        return _cumulative(self.size, self.exponent, self.shift)

    def ranks(self, unit: np.ndarray) -> np.ndarray:
        """Return the rank at each position in [0, 1): int32, same shape."""
        ranks = np.searchsorted(self.cumulative(), unit, side="right")
        return np.minimum(ranks, self.size - 1).astype(np.int32)


@lru_cache(maxsize=8)
def _cumulative(size: int, exponent: float, shift: float) -> np.ndarray:
    """Compute the cumulative probabilities of a law once."""
    weight = (np.arange(1, size + 1, dtype=np.float64) + shift) ** -exponent
    total = np.cumsum(weight)
    total /= total[-1]
    total.setflags(write=False)
    return total
