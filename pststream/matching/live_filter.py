"""The dispatchers' filter of live terms, kept up with the segments of the index."""

import numpy as np

from pststream.kernels.matching.bloom_filter import LIVE_LEVEL, add_keys, live_terms
from pststream.matching.segment_cache import Paths, SegmentCache

BITS_PER_KEY = 16


class LiveFilter:
    """Grows with each new segment. Keys of segments that were taken away stay, which costs a look-up in vain now and
    then; the filter is made anew when they are as many as the others, or when it is full.
    """

    def __init__(self) -> None:
        self._keys_of: dict[Paths, int] = {}
        self._entered = 0
        self._levels: set[int] = set()
        self._words = np.zeros(1 << 10, np.uint64)

    def update(self, wanted: frozenset[Paths], cache: SegmentCache) -> None:
        """Hold the keys of these segments, and perhaps of some that were among them before."""
        segments = cache.segments(wanted - self._keys_of.keys())
        self._keys_of = {paths: count for paths, count in self._keys_of.items() if paths in wanted}
        self._keys_of |= {paths: len(segment.key_term) for paths, segment in segments.items()}
        self._entered += sum(len(segment.key_term) for segment in segments.values())
        held = sum(self._keys_of.values())
        if self._entered > 2 * held or BITS_PER_KEY * self._entered > 64 * len(self._words):
            segments = cache.segments(wanted)
            self._entered, self._levels = held, set()
            needed = BITS_PER_KEY * held // 64
            self._words = np.zeros(1 << max(10, int(needed + needed // 4).bit_length()), np.uint64)
        for segment in segments.values():
            add_keys(self._words, segment.cells, segment.cell_keys, segment.key_term, segment.terms)
            self._levels.update(min(int(level), LIVE_LEVEL) for level in segment.levels)

    def live(self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """Which (object, term) pairs may meet a subscription: bool, parallel to `terms`."""
        levels = np.array(sorted(self._levels, reverse=True), np.int64)
        return live_terms(self._words, levels, lon, lat, term_offsets, terms)
