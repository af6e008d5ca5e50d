"""Keep a Bloom filter of live terms in Python integers, without shared code."""

import numpy as np

from pststream.kernels.matching.postings import LiveTerms

WORD = 2**64 - 1


class SlowFilter:
    """A filter of (index cell, term) pairs; few words make pairs pass that were not added."""

    def __init__(self, levels: tuple[int, ...], words: int = 1024) -> None:
        self.levels = levels
        self.words = [0] * words

    def add(self, level: int, lon: float, lat: float, term: int) -> None:
        """Add a term in the cell of a level around a point."""
        place, bits = self._place(level, lon, lat, term)
        self.words[place] |= bits

    def has(self, lon: float, lat: float, term: int) -> bool:
        """Return whether the term passes the filter at a point."""
        places = [self._place(level, lon, lat, term) for level in self.levels]
        return any(self.words[place] & bits == bits for place, bits in places)

    def arrays(self) -> LiveTerms:
        """Return the filter as kernels take it."""
        return LiveTerms(np.array(self.words, np.uint64), np.array(self.levels, np.int64))

    def _place(self, level: int, lon: float, lat: float, term: int) -> tuple[int, int]:
        """Return the word of a pair, and its three bits."""
        column = min(max(int((lon + 180.0) * (131072.0 / 360.0)), 0), 131071) >> (17 - level)
        row = min(max(int((lat + 90.0) * (131072.0 / 360.0)), 0), 65535) >> (17 - level)
        cell = 1 << 2 * level
        for bit in range(level):
            cell |= (column >> bit & 1) << 2 * bit | (row >> bit & 1) << 2 * bit + 1
        value = term % 2**64 ^ cell * 0x9E3779B97F4A7C15 & WORD
        for _ in range(2):
            value = (value ^ value >> 32) * 0xD6E8FEB86659FD93 & WORD
        value ^= value >> 32
        bits = 0
        for shift in (0, 6, 12):
            bits |= 1 << (value >> shift & 63)
        return (value >> 20) % len(self.words), bits


def filter_of_terms(terms: list[int]) -> LiveTerms:
    """Return a filter that these terms pass everywhere, and of other terms one in a million at most."""
    made = SlowFilter((0,))
    for term in terms:
        made.add(0, 0.0, 0.0, term)
    return made.arrays()
