"""Take one pruning out of a segment of the `topk` index at a time, to measure what each is worth.

Skype's index (section 5) prunes in four ways, which are one test here (kernels/scored/index_arrays.py). A variant is a
segment with other numbers for the same kernel, so a test that is of no use still takes its time. No variant changes the
pairs that are found.

location_aware_prefix  the words after the rarest shared word may make the text perfect
group_pruning          no block and no chunk is passed over
cell_pruning           blocks and chunks may be anywhere

The fourth, early termination, has no variant: all postings of a block are tested together, so they have no order.
"""

from collections.abc import Callable

import numpy as np

from pststream.kernels.scored.fill_blocks import bound_blocks
from pststream.kernels.scored.index_arrays import (
    ALPHA,
    BLOCK,
    BOTTOM,
    BOUND_NEED,
    BOUNDS,
    FIELDS,
    GREATEST,
    NEED,
    NORM,
    SOUTH,
    SUM,
    WEIGHT,
    WEST,
    IndexArrays,
)


def without_location_aware_prefix(segment: IndexArrays) -> IndexArrays:
    """Return a segment whose bound of the text is 1, at each word."""
    numbers = segment.numbers.copy()
    places = _places(segment.posting_offsets, FIELDS)
    numbers[places(NEED)] -= 1 - numbers[places(ALPHA)]
    for field in (WEIGHT, NORM, SUM, GREATEST):
        numbers[places(field)] = 0
    block_bounds, chunk_bounds = bound_blocks(
        segment.posting_offsets, segment.block_offsets, segment.chunk_offsets, numbers
    )
    return segment._replace(numbers=numbers, block_bounds=block_bounds, chunk_bounds=chunk_bounds)


def without_group_pruning(segment: IndexArrays) -> IndexArrays:
    """Return a segment whose blocks and chunks pass every message."""
    return _with_bounds(segment, {BOUND_NEED: -np.inf})


def without_cell_pruning(segment: IndexArrays) -> IndexArrays:
    """Return a segment whose boxes contain the sphere."""
    ends = dict.fromkeys((WEST, SOUTH, BOTTOM), -1.0) | {axis + 1: 1.0 for axis in (WEST, SOUTH, BOTTOM)}
    return _with_bounds(segment, ends)


VARIANTS = {
    "location_aware_prefix": without_location_aware_prefix,
    "group_pruning": without_group_pruning,
    "cell_pruning": without_cell_pruning,
}
"""By the pruning that each leaves out."""


def _with_bounds(segment: IndexArrays, values: dict[int, float]) -> IndexArrays:
    block_bounds, chunk_bounds = segment.block_bounds.copy(), segment.chunk_bounds.copy()
    places = _places(segment.block_offsets, BOUNDS)
    for bound, value in values.items():
        block_bounds[places(bound)], chunk_bounds[:, bound] = value, value
    return segment._replace(block_bounds=block_bounds, chunk_bounds=chunk_bounds)


def _places(offsets: np.ndarray, fields: int) -> Callable[[int], np.ndarray]:
    """Return a function that returns the places of a field of all rows: the fields of BLOCK rows of a word follow one
    another.

    offsets  int32[W+1]  slice of the rows of each word
    """
    rows = np.arange(offsets[-1], dtype=np.int64)
    word_starts, word_ends = (
        np.repeat(ends, np.diff(offsets)).astype(np.int64) for ends in (offsets[:-1], offsets[1:])
    )
    first = rows - (rows - word_starts) % BLOCK
    count = np.minimum(BLOCK, word_ends - first)
    return lambda field: first * fields + field * count + rows - first
