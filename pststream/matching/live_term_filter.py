"""Maintain a Bloom filter of the live terms of segments, by which routing tasks drop the other terms of objects.

An object without a live term is not sent to any worker.
"""

import threading

import numpy as np

from pststream.kernels.matching.postings import LIVE_LEVEL, LiveTerms, add_keys
from pststream.matching.matcher import has_every_object
from pststream.matching.segments import SegmentCache
from pststream.storage.array_cache import Paths

BITS_PER_KEY = 8
"""Bits for each key, at least. With 16, routing takes 15% longer, for more words lie outside of the caches."""


class LiveTermFilter:
    """A Bloom filter of the (index cell, term) keys of an index's segments.

    The filter grows with each new segment. Keys of removed segments remain, which sometimes sends an object to a worker
    without a match. The filter is built again when it has as many such keys as current ones, or when it is full.
    """

    def __init__(self) -> None:
        self._keys_of: dict[Paths, int] = {}
        self._every_object: set[Paths] = set()
        self._added = 0
        self._levels: set[int] = set()
        self._words = np.zeros(1 << 10, np.uint64)
        self._lock = threading.Lock()

    def update(self, wanted: frozenset[Paths], cache: SegmentCache) -> None:
        """Add the keys of the segments that are new among `wanted`; several threads may call it."""
        # Threads that start together build different segments here, before one of them adds the keys.
        cache.segments(wanted - self._keys_of.keys())
        with self._lock:
            self._add(wanted, cache)

    def _add(self, wanted: frozenset[Paths], cache: SegmentCache) -> None:
        segments = cache.segments(wanted - self._keys_of.keys())
        keys_of = {paths: count for paths, count in self._keys_of.items() if paths in wanted}
        keys_of |= {paths: segment.posting_keys for paths, segment in segments.items()}
        added = self._added + sum(segment.posting_keys for segment in segments.values())
        needed = sum(keys_of.values())
        filter_words, levels = self._words, self._levels
        if added > 2 * needed or BITS_PER_KEY * added > 64 * len(filter_words):
            segments = cache.segments(wanted)
            added, levels = needed, set()
            words = BITS_PER_KEY * needed // 64
            filter_words = np.zeros(1 << max(10, int(words + words // 4).bit_length()), np.uint64)
        for segment in segments.values():
            add_keys(filter_words, segment.cells, segment.cell_buckets, segment.buckets, segment.keys, segment.terms)
            levels = levels | {min(int(level), LIVE_LEVEL) for level in segment.levels}
        every = {paths for paths in self._every_object if paths in wanted}
        every |= {paths for paths, segment in segments.items() if has_every_object(segment)}
        # Nothing counts as added before it is: reading a segment may fail, and the process goes on with a later batch.
        self._keys_of, self._added, self._words, self._levels = keys_of, added, filter_words, levels
        self._every_object = every

    @property
    def has_every_object(self) -> bool:
        """Whether a subscription without keywords is live."""
        return bool(self._every_object)

    def arrays(self) -> LiveTerms:
        """Return the filter as kernels take it."""
        return LiveTerms(self._words, np.array(sorted(self._levels, reverse=True), np.int64))
