"""Build and read the keys of posting lists: pairs of an index cell and a term, in buckets of 64 bits.

A bucket (uint64[2]) belongs to a cell and to a range of terms: a bit for each key by its place among all terms, and its
first key | its first posting << 32. A key is 4 bytes: its term in the upper bits, as many as the terms of the segment
need, and below them the place of its first posting in the bucket. A place that does not fit is the greatest number; the
posting is then in a list of such keys.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.search import find

LOW = np.uint64(0xFFFFFFFF)
"""The first key of a bucket's second number."""

HIGH = np.uint64(32)
"""Shift to the first posting."""


@kernel
def spot_scale(terms):
    """The factor that scales the number of a term, of `terms` terms, to a spot in [0, 2^32)."""
    return (np.int64(1) << 32) // max(terms, 1)


@kernel
def place_bits(terms):
    """Bits of a key that are left for the place of its first posting, if a segment has `terms` terms (at most 2^26)."""
    bits = 0
    while (1 << bits) < terms:
        bits += 1
    return min(32 - bits, 31)


@kernel
def cell_buckets(cell_keys):
    """Return the first bucket of each cell with its shift from a spot to a bit, and the number of buckets.

    A cell has a power of two of buckets of 64 bits, 8 to 16 bits for each key. Its number is first bucket << 6 | shift
    (int64[C]).
    """
    starts = np.empty(len(cell_keys) - 1, np.int64)
    total = 0
    for c in range(len(cell_keys) - 1):
        words, shift = 1, 26
        while words * 8 < cell_keys[c + 1] - cell_keys[c]:
            words *= 2
            shift -= 1
        starts[c] = (total << 6) | shift
        total += words
    return starts, total


@kernel
def fill_buckets(cell_keys, key_term, key_postings, starts, total, terms):
    """Return the buckets of all cells (uint64[B+1,2]); the last row has the number of keys and of postings."""
    buckets = np.zeros((total + 1, 2), np.uint64)
    scale = spot_scale(terms)
    for c in range(len(cell_keys) - 1):
        # The keys of the cell, in the order of their terms.
        first, shift = starts[c] >> 6, starts[c] & 63
        bucket = first
        buckets[bucket, 1] = cell_keys[c]
        for k in range(cell_keys[c], cell_keys[c + 1]):
            place = (key_term[k] * scale) >> shift
            while bucket < first + (place >> 6):
                bucket += 1
                buckets[bucket, 1] = k
            buckets[bucket, 0] |= np.uint64(1) << np.uint64(place & 63)
        # The remaining buckets of the cell are empty.
        last = starts[c + 1] >> 6 if c + 1 < len(starts) else total
        for rest in range(bucket + 1, last):
            buckets[rest, 1] = cell_keys[c + 1]
    buckets[total, 1] = len(key_term)
    for bucket in range(total + 1):
        buckets[bucket, 1] |= np.uint64(key_postings[np.int64(buckets[bucket, 1])]) << HIGH
    return buckets


@kernel
def encode_keys(key_term, key_postings, buckets, terms):
    """Return the keys (uint32[K]), and those whose place does not fit (int64[F])."""
    keys = np.empty(len(key_term), np.uint32)
    far = np.empty(len(key_term), np.int64)
    bits, count = place_bits(terms), 0
    greatest = (np.int64(1) << bits) - 1
    for bucket in range(len(buckets) - 1):
        base = np.int64(buckets[bucket, 1] >> HIGH)
        for k in range(np.int64(buckets[bucket, 1] & LOW), np.int64(buckets[bucket + 1, 1] & LOW)):
            place = min(key_postings[k] - base, greatest)
            keys[k] = (np.int64(key_term[k]) << bits) | place
            far[count] = k
            count += place == greatest
    return keys, far[:count].copy()


@kernel
def find_far_posting(key, far_keys, far_postings):
    """The first posting of a key whose place does not fit."""
    return far_postings[find(far_keys, 0, len(far_keys), key)]
