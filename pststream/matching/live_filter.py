"""The dispatchers' filter of live terms, kept up with the segments of the index."""

import numpy as np

from pststream.kernels.live import LIVE_LEVEL, add_keys, live_terms
from pststream.matching.cache import SegmentCache

BITS_PER_KEY = 16


class LiveFilter:
    """Grows with each new segment; is made anew when one was taken away."""

    def __init__(self) -> None:
        self._paths: frozenset[str] = frozenset()
        self._keys = 0
        self._levels: set[int] = set()
        self._words = np.zeros(1 << 10, np.uint64)

    def update(self, paths: frozenset[str], cache: SegmentCache) -> None:
        """Hold exactly the keys of these data files, or a little more."""
        new = paths - self._paths
        segments = [cache.segment(path) for path in new]
        if self._paths - paths or BITS_PER_KEY * (self._keys + sum(len(s.key_term) for s in segments)) > 64 * len(
            self._words
        ):
            segments = [cache.segment(path) for path in paths]
            self._keys = 0
            self._levels = set()
            needed = BITS_PER_KEY * sum(len(s.key_term) for s in segments) // 64
            self._words = np.zeros(1 << max(10, int(needed + needed // 4).bit_length()), np.uint64)
        for segment in segments:
            add_keys(self._words, segment.cells, segment.cell_keys, segment.key_term, segment.terms)
            self._keys += len(segment.key_term)
            self._levels.update(min(int(level), LIVE_LEVEL) for level in segment.levels)
        self._paths = paths

    def live(self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """Which (object, term) pairs may meet a subscription: bool, parallel to `terms`."""
        levels = np.array(sorted(self._levels, reverse=True), np.int64)
        return live_terms(self._words, levels, lon, lat, term_offsets, terms)
