"""A limit on the messages that a subscription gets in a time: counts of pairs, whole arrays at a time."""

import numpy as np


class Tally:
    """Counts pairs of each subscription and says which go over the limit; 16 bytes for each subscription seen."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._keys = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)

    def over(self, keys: np.ndarray) -> np.ndarray:
        """Count these pairs, in their order: keys int64[n]; which are beyond the limit: bool[n]."""
        if not len(keys):
            return np.zeros(0, bool)
        order = np.argsort(keys, kind="stable")
        distinct, first, size = np.unique(keys[order], return_index=True, return_counts=True)
        rank = np.empty(len(keys), np.int64)
        rank[order] = np.arange(len(keys)) - np.repeat(first, size)
        before = self._count_of(distinct)
        over = rank + before[np.searchsorted(distinct, keys)] >= self._limit
        merged = np.union1d(self._keys, distinct)
        counts = np.zeros(len(merged), np.int64)
        counts[np.searchsorted(merged, self._keys)] = self._counts
        counts[np.searchsorted(merged, distinct)] += size
        self._keys, self._counts = merged, counts
        return over

    def _count_of(self, keys: np.ndarray) -> np.ndarray:
        """Pairs counted so far of each of these."""
        if not len(self._keys):
            return np.zeros(len(keys), np.int64)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._counts[place], 0)
