"""Bound the times of blocks of objects, so that few entries need their object to be compared with a window."""

from typing import NamedTuple

import numpy as np

from pststream.kernels.borrowed import borrow
from pststream.kernels.compile import kernel

BLOCK_BITS = 8
"""A block has 256 numbers."""


class ObjectBounds(NamedTuple):
    """Least and greatest ts of the first blocks of numbers: int64[blocks]; those of other blocks are not known."""

    oldest: np.ndarray
    newest: np.ndarray


@kernel
def bound_objects(rows):
    """Return the bounds of objects (int64[m,2], ts first) by their numbers."""
    blocks = (len(rows) + (1 << BLOCK_BITS) - 1) >> BLOCK_BITS
    bounds = ObjectBounds(np.empty(blocks, np.int64), np.empty(blocks, np.int64))
    fill_bounds(rows, bounds)
    return bounds


@kernel
def fill_bounds(rows, bounds):
    """Write the bounds of all blocks."""
    rows, bounds = borrow(rows), borrow(bounds)
    for block in range(len(bounds.oldest)):
        start = block << BLOCK_BITS
        oldest = newest = rows[start, 0]
        for number in range(start, min(start + (1 << BLOCK_BITS), len(rows))):
            oldest, newest = min(oldest, rows[number, 0]), max(newest, rows[number, 0])
        bounds.oldest[block], bounds.newest[block] = oldest, newest
