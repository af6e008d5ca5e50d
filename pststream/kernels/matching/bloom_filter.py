"""Bloom filter of live terms: add the (index cell, term) pairs of segments; test the terms of objects near a point.

Routing tasks drop the other terms before objects are sent to workers (`matching/live_term_filter.py`).

A pair is in the filter if a subscription is posted under this term in this cell. Source: map H2 of PS2Stream section
IV-C. A word of 64 bits is a block of the filter; a pair sets three bits of one word.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.index_cells import MAX_LEVEL, column_of, interleave, row_of

LIVE_LEVEL = 9
"""An index cell of a finer level is replaced by its ancestor of this level (0.7 degrees wide)."""


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
def add_keys(words, cells, cell_keys, key_term, terms):
    """Add every (cell, term) of a segment to the filter (uint64[2^k])."""
    last = np.uint64(len(words) - 1)
    for c in range(len(cells)):
        cell = cells[c]
        while cell >= (1 << (2 * LIVE_LEVEL + 1)):
            cell >>= 2
        for k in range(cell_keys[c], cell_keys[c + 1]):
            value = _mixed(cell, terms[key_term[k]])
            words[(value >> np.uint64(20)) & last] |= _bits_of(value)


@kernel
def live_terms(words, levels, lon, lat, term_offsets, terms):
    """Return whether a subscription near the object may be posted under the term: bool, parallel to `terms`.

    `levels` int64[]: levels in use, capped at LIVE_LEVEL. Never false for a live term; true for 1% of other terms.
    """
    live = np.zeros(len(terms), np.bool_)
    last = np.uint64(len(words) - 1)
    cells = np.empty(len(levels), np.int64)
    for i in range(len(lon)):
        code = interleave(column_of(lon[i]), row_of(lat[i]))
        for d in range(len(levels)):
            cells[d] = (1 << (2 * levels[d])) | (code >> (2 * (MAX_LEVEL - levels[d])))
        for j in range(term_offsets[i], term_offsets[i + 1]):
            for d in range(len(levels)):
                value = _mixed(cells[d], terms[j])
                bits = _bits_of(value)
                if words[(value >> np.uint64(20)) & last] & bits == bits:
                    live[j] = True
                    break
    return live
