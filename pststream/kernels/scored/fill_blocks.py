"""Lay the numbers of postings out by blocks, with the bounds of blocks and chunks, and change thresholds in place."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.scored.index_arrays import (
    ALPHA,
    BLOCK,
    BOTTOM,
    BOUND_ALPHA,
    BOUND_GREATEST,
    BOUND_NEED,
    BOUND_NORM,
    BOUND_RATE,
    BOUND_SUM,
    BOUND_WEIGHT,
    BOUNDS,
    EAST,
    FIELDS,
    GREATEST,
    NEED,
    NORM,
    NORTH,
    RATE,
    SOUTH,
    SUM,
    TOP,
    WEIGHT,
    WEST,
    IndexArrays,
    X,
    Y,
    Z,
    need_of,
)

LEAST = np.array([WEST, SOUTH, BOTTOM, BOUND_RATE, BOUND_ALPHA, BOUND_NEED])
LEAST_FIELDS = np.array([X, Y, Z, RATE, ALPHA, NEED])
"""The bounds that are the least of a number, and the number of each."""

MOST = np.array([EAST, NORTH, TOP, BOUND_WEIGHT, BOUND_NORM, BOUND_SUM, BOUND_GREATEST])
MOST_FIELDS = np.array([X, Y, Z, WEIGHT, NORM, SUM, GREATEST])


@kernel
def fill_blocks(
    posting_offsets: np.ndarray, block_offsets: np.ndarray, order: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Return the array `numbers` of an index (index_arrays.py).

    order  int32[m]           the row of each posting
    rows   float32[m,FIELDS]  the numbers
    """
    numbers = np.empty(len(order) * FIELDS, np.float32)
    for word in range(len(posting_offsets) - 1):
        for block in range(block_offsets[word + 1] - block_offsets[word]):
            first, count = block_of(posting_offsets, word, block)
            for place in range(count):
                for field in range(FIELDS):
                    numbers[first * FIELDS + field * count + place] = rows[order[first + place], field]
    return numbers


@kernel
def bound_blocks(
    posting_offsets: np.ndarray, block_offsets: np.ndarray, chunk_offsets: np.ndarray, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays `block_bounds` and `chunk_bounds` of an index (index_arrays.py)."""
    block_bounds = np.empty(block_offsets[-1] * BOUNDS, np.float32)
    chunk_bounds = np.empty((chunk_offsets[-1], BOUNDS), np.float32)
    bounds = np.empty(BOUNDS, np.float32)
    for word in range(len(posting_offsets) - 1):
        for block in range(block_offsets[word + 1] - block_offsets[word]):
            first, count = block_of(posting_offsets, word, block)
            _bound_block(numbers[first * FIELDS : (first + count) * FIELDS], count, bounds)
            chunk, place = block // BLOCK, block % BLOCK
            start, blocks = chunk_of(block_offsets, word, chunk)
            for bound in range(BOUNDS):
                block_bounds[start * BOUNDS + bound * blocks + place] = bounds[bound]
            _widen(chunk_bounds[chunk_offsets[word] + chunk], bounds, place == 0)
    return block_bounds, chunk_bounds


@kernel
def block_of(posting_offsets: np.ndarray, word: int, block: int) -> tuple[int, int]:
    """Return the first posting of a block of a word, counted from 0, and the number of its postings."""
    first = posting_offsets[word] + block * BLOCK
    return first, min(BLOCK, posting_offsets[word + 1] - first)


@kernel
def chunk_of(block_offsets: np.ndarray, word: int, chunk: int) -> tuple[int, int]:
    """Return the first block of a chunk of a word, counted from 0, and the number of its blocks."""
    start = block_offsets[word] + chunk * BLOCK
    return start, min(BLOCK, block_offsets[word + 1] - start)


@kernel
def _bound_block(numbers: np.ndarray, count: int, bounds: np.ndarray) -> None:
    for at in range(len(LEAST)):
        field = LEAST_FIELDS[at]
        bounds[LEAST[at]] = _least(numbers[field * count : (field + 1) * count])
    for at in range(len(MOST)):
        field = MOST_FIELDS[at]
        bounds[MOST[at]] = _greatest(numbers[field * count : (field + 1) * count])


@kernel
def _widen(bounds: np.ndarray, others: np.ndarray, is_first: bool) -> None:
    """Change the bounds of a chunk to cover a block, or make them those of its first block."""
    if is_first:
        bounds[:] = others
        return
    for bound in LEAST:
        bounds[bound] = min(bounds[bound], others[bound])
    for bound in MOST:
        bounds[bound] = max(bounds[bound], others[bound])


@kernel
def change_thresholds(index: IndexArrays, rows: np.ndarray, thresholds: np.ndarray) -> None:
    """Change the thresholds of subscriptions in place, with the bounds of their blocks and chunks.

    rows        int[c]      subscriptions of the index, each once
    thresholds  float32[c]  see IndexArrays
    """
    for at in range(len(rows)):
        row = rows[at]
        index.thresholds[row] = thresholds[at]
        need = need_of(thresholds[at], index.records[row, 2])
        for own in range(index.word_offsets[row], index.word_offsets[row + 1]):
            if index.places[own] >= 0:
                _change_need(index, index.words[own], index.places[own], need)


@kernel
def _change_need(index: IndexArrays, word: int, posting: int, need: np.float32) -> None:
    number = (posting - index.posting_offsets[word]) // BLOCK
    first, count = block_of(index.posting_offsets, word, number)
    needs = index.numbers[first * FIELDS + NEED * count : first * FIELDS + (NEED + 1) * count]
    needs[posting - first] = need
    chunk = number // BLOCK
    start, blocks = chunk_of(index.block_offsets, word, chunk)
    base = start * BOUNDS + BOUND_NEED * blocks
    of_chunk = index.block_bounds[base : base + blocks]
    of_chunk[number - chunk * BLOCK] = _least(needs)
    index.chunk_bounds[index.chunk_offsets[word] + chunk, BOUND_NEED] = _least(of_chunk)


@kernel
def _least(values: np.ndarray) -> np.float32:
    least = values[0]
    for value in values:
        least = min(least, value)
    return least


@kernel
def _greatest(values: np.ndarray) -> np.float32:
    greatest = values[0]
    for value in values:
        greatest = max(greatest, value)
    return greatest
