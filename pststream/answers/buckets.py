"""Divide subscriptions with memory into buckets, which tables and folders of nodes are divided by."""

import numpy as np

from pststream.base.integer_hash import hash_integers

_SALT = 28


def bucket_of(keys: np.ndarray, buckets: int) -> np.ndarray:
    """Return the bucket of each subscription by its key (int64[n]): int64[n], from 0 to `buckets` - 1."""
    return (hash_integers(keys, _SALT) % np.uint64(buckets)).astype(np.int64)
