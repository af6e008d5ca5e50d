"""Count the matches of each subscription, and mark those beyond its limit, which become one digest instead.

The outbox makes a limiter for each batch, and counts the earlier batches of the same time window first.
"""

import numpy as np

from pststream.base.sorted_keys import distinct_values, look_up


class MessageLimiter:
    """Counts the pairs of each subscription and finds those beyond the limit; 16 bytes a counted subscription."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._keys = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)

    def count(self, keys: np.ndarray) -> np.ndarray:
        """Count pairs, in order, by their subscription keys int64[n]; return which are beyond the limit: bool[n]."""
        if not len(keys):
            return np.zeros(0, bool)
        order = np.argsort(keys, kind="stable")
        distinct, first, size = np.unique(keys[order], return_index=True, return_counts=True)
        rank = np.empty(len(keys), np.int64)
        rank[order] = np.arange(len(keys)) - np.repeat(first, size)
        before = look_up(distinct, self._keys, self._counts, 0)
        beyond = rank + before[np.searchsorted(distinct, keys)] >= self._limit
        merged = distinct_values(np.concatenate([self._keys, distinct]))
        counts = np.zeros(len(merged), np.int64)
        counts[np.searchsorted(merged, self._keys)] = self._counts
        counts[np.searchsorted(merged, distinct)] += size
        self._keys, self._counts = merged, counts
        return beyond
