"""Bloom filter of live terms: add the (index cell, term) pairs of segments; test a term near a point.

Routing tasks drop the other terms before objects are sent to workers (`matching/live_term_filter.py`).

A pair is in the filter if a subscription is posted under this term in this cell. Source: map H2 of PS2Stream section
IV-C. A word of 64 bits is a block of the filter; a pair sets three bits of one word.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import inlined, kernel
from pststream.kernels.matching.index_cells import MAX_LEVEL
from pststream.kernels.matching.posting_keys import LOW, place_bits

LIVE_LEVEL = 9
"""An index cell of a finer level is replaced by its ancestor of this level (0.7 degrees wide)."""


class LiveTerms(NamedTuple):
    """A filter: words uint64[2^k]; levels int64[]: levels in use, capped at LIVE_LEVEL."""

    words: np.ndarray
    levels: np.ndarray


@kernel
def _mixed(cell, term):
    """A 64-bit hash of a pair."""
    value = np.uint64(term) ^ (np.uint64(cell) * np.uint64(0x9E3779B97F4A7C15))
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    return value ^ (value >> np.uint64(32))


@kernel
def _bits_of(value):
    """The three bits of a word that a hash sets."""
    one = np.uint64(1)
    six = np.uint64(63)
    return (one << (value & six)) | (one << ((value >> np.uint64(6)) & six)) | (one << ((value >> np.uint64(12)) & six))


@kernel
def add_keys(words, cells, cell_buckets, buckets, keys, terms):
    """Add every (cell, term) of a segment (`matching/segments.py`) to the filter (uint64[2^k])."""
    last = np.uint64(len(words) - 1)
    bits = place_bits(len(terms))
    for c in range(len(cells)):
        cell = cells[c]
        while cell >= (1 << (2 * LIVE_LEVEL + 1)):
            cell >>= 2
        end = cell_buckets[c + 1] >> 6 if c + 1 < len(cells) else len(buckets) - 1
        for k in range(np.int64(buckets[cell_buckets[c] >> 6, 1] & LOW), np.int64(buckets[end, 1] & LOW)):
            value = _mixed(cell, terms[np.int64(keys[k]) >> bits])
            words[(value >> np.uint64(20)) & last] |= _bits_of(value)


@inlined
def word_of(words, level, code, term):
    """The place of the word for a term in the index cell of a level around a point with this Morton number."""
    cell = (1 << (2 * level)) | (code >> (2 * (MAX_LEVEL - level)))
    return np.int64((_mixed(cell, term) >> np.uint64(20)) & np.uint64(len(words) - 1))


@inlined
def may_be_live(words, levels, code, term):
    """Whether a subscription near a point with this Morton number may be posted under a term.

    Never false for a live term; true for 4% of other terms at most, mostly for less than 1%.
    """
    live = False
    for level in levels:
        value = _mixed((1 << (2 * level)) | (code >> (2 * (MAX_LEVEL - level))), term)
        bits = _bits_of(value)
        if words[(value >> np.uint64(20)) & np.uint64(len(words) - 1)] & bits == bits:
            live = True
            break
    return live
