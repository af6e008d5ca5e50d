"""Measure and order postings, lay their numbers out by blocks with bounds, and change thresholds in place."""

import math

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.contains_point import EARTH_RADIUS_M
from pststream.kernels.scored import index_arrays as fields
from pststream.kernels.scored.index_arrays import (
    BLOCK,
    BOUNDS,
    FIELDS,
    IndexArrays,
    need_of,
    point_in_space,
    signature_of,
)
from pststream.kernels.sort_and_search import sort_few

LEAST = np.array([fields.WEST, fields.SOUTH, fields.BOTTOM, fields.BOUND_RATE, fields.BOUND_ALPHA, fields.BOUND_NEED])
LEAST_FIELDS = np.array([fields.X, fields.Y, fields.Z, fields.RATE, fields.ALPHA, fields.NEED])
"""The bounds that are the least of a number, and the number of each."""

MOST = np.array(
    [
        fields.EAST,
        fields.NORTH,
        fields.TOP,
        fields.BOUND_WEIGHT,
        fields.BOUND_NORM,
        fields.BOUND_SUM,
        fields.BOUND_GREATEST,
    ]
)
MOST_FIELDS = np.array([fields.X, fields.Y, fields.Z, fields.WEIGHT, fields.NORM, fields.SUM, fields.GREATEST])


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
    needs = index.numbers[first * FIELDS + fields.NEED * count : first * FIELDS + (fields.NEED + 1) * count]
    needs[posting - first] = need
    chunk = number // BLOCK
    start, blocks = chunk_of(index.block_offsets, word, chunk)
    base = start * BOUNDS + fields.BOUND_NEED * blocks
    of_chunk = index.block_bounds[base : base + blocks]
    of_chunk[number - chunk * BLOCK] = _least(needs)
    index.chunk_bounds[index.chunk_offsets[word] + chunk, fields.BOUND_NEED] = _least(of_chunk)


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


# Compute the numbers of the postings of subscriptions, and order the postings of each word so that like ones meet.

GREATEST_RATE = 1e30

SAMPLED = 64
"""Postings by which the axis of a division is chosen."""

UNITS = np.array([1.0, 1.0, 1.0, 0.0, 0.5, 0.4, 0.4, 0.0, 0.0, 1.0])
"""The share of the score that a difference in each number of a posting makes: of WEIGHT and NORM what a word and the
words after it have of a usual message. Places count by their rate.
"""


@kernel
def sort_words(offsets: np.ndarray, words: np.ndarray) -> None:
    """Sort the words of each subscription in place; offsets int[n+1], words int32[m]."""
    for row in range(len(offsets) - 1):
        sort_few(words[offsets[row] : offsets[row + 1]])


@kernel
def measure_postings(
    records: np.ndarray, squares: np.ndarray, thresholds: np.ndarray, offsets: np.ndarray, words: np.ndarray,
    ids: np.ndarray, weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the numbers of the postings, float32[m,FIELDS], and their signatures, uint64[m], in the order of `words`.

    The arguments are those of index_arrays.IndexArrays.
    """
    numbers, signatures = np.empty((len(words), FIELDS), np.float32), np.empty(len(words), np.uint64)
    for row in range(len(records)):
        lon, lat, alpha, scale = records[row]
        x, y, z = point_in_space(lon, lat)
        rate, need = min(alpha * EARTH_RADIUS_M / scale, GREATEST_RATE), need_of(thresholds[row], alpha)
        share = (1.0 - alpha) / math.sqrt(np.float64(squares[row]))
        square, total, greatest, signature = 0.0, 0.0, 0.0, np.uint64(0)
        for place in range(offsets[row + 1] - 1, offsets[row] - 1, -1):
            word = words[place]
            weight = np.float64(weights[word])
            numbers[place, fields.X], numbers[place, fields.Y], numbers[place, fields.Z] = x, y, z
            numbers[place, fields.RATE], numbers[place, fields.ALPHA], numbers[place, fields.NEED] = rate, alpha, need
            numbers[place, fields.WEIGHT], numbers[place, fields.NORM] = share * weight, share * math.sqrt(square)
            numbers[place, fields.SUM], numbers[place, fields.GREATEST] = share * total, share * greatest
            signatures[place] = signature
            square, total, greatest = square + weight * weight, total + weight, max(greatest, weight)
            signature |= signature_of(ids[word])
    return numbers, signatures


@kernel
def order_postings(posting_offsets: np.ndarray, words: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the places in `words` in the order of the postings: by word, then along a kd-tree in units of the score.

    posting_offsets  int32[W+1]         see index_arrays.py
    numbers          float32[m,FIELDS]  in the order of `words`
    Returns int32[m].
    """
    order, next_place = np.empty(len(words), np.int32), posting_offsets[:-1].copy()
    for place in range(len(words)):
        word = words[place]
        order[next_place[word]] = place
        next_place[word] += 1
    longest = 0
    for word in range(len(posting_offsets) - 1):
        longest = max(longest, posting_offsets[word + 1] - posting_offsets[word])
    keys = np.empty(longest, np.float32)
    for word in range(len(posting_offsets) - 1):
        low, high = posting_offsets[word], posting_offsets[word + 1]
        if high - low > BLOCK:
            _divide(order[low:high], numbers, keys)
    return order


@kernel
def _divide(order: np.ndarray, numbers: np.ndarray, keys: np.ndarray) -> None:
    """Order the postings of a word along a kd-tree whose leaves are blocks, all but the last full."""
    stack, size = np.empty((64, 2), np.int64), 1
    stack[0, 0], stack[0, 1] = 0, len(order)
    while size:
        size -= 1
        low, high = stack[size]
        blocks = (high - low + BLOCK - 1) // BLOCK
        if blocks <= 1:
            continue
        left = 1
        while 2 * left < blocks:
            left *= 2
        middle = low + left * BLOCK
        axis = _widest_axis(order[low:high], numbers)
        for at in range(low, high):
            keys[at] = _coordinate(numbers, order[at], axis)
        _select(keys, order, low, high - 1, middle)
        stack[size, 0], stack[size, 1] = low, middle
        stack[size + 1, 0], stack[size + 1, 1] = middle, high
        size += 2


@kernel
def _coordinate(numbers: np.ndarray, place: int, axis: int) -> np.float32:
    unit = numbers[place, fields.RATE] if axis <= fields.Z else UNITS[axis]
    return np.float32(numbers[place, axis] * unit)


@kernel
def _widest_axis(order: np.ndarray, numbers: np.ndarray) -> int:
    """Return the axis with the greatest variance in a sample of the postings."""
    step = max(1, len(order) // SAMPLED)
    widest, greatest = fields.X, -1.0
    for axis in range(FIELDS):
        if UNITS[axis] == 0.0:
            continue
        count, total, squared = 0, 0.0, 0.0
        for at in range(0, len(order), step):
            value = np.float64(_coordinate(numbers, order[at], axis))
            count, total, squared = count + 1, total + value, squared + value * value
        variance = squared / count - (total / count) ** 2
        if variance > greatest:
            widest, greatest = axis, variance
    return widest


@kernel
def _select(keys: np.ndarray, order: np.ndarray, low: int, high: int, middle: int) -> None:
    """Exchange keys with their order in [low, high], until none before `middle` is greater than one from it on."""
    while low < high:
        pivot = keys[(low + high) >> 1]
        left, right = low, high
        while left <= right:
            while keys[left] < pivot:
                left += 1
            while pivot < keys[right]:
                right -= 1
            if left <= right:
                keys[left], keys[right] = keys[right], keys[left]
                order[left], order[right] = order[right], order[left]
                left, right = left + 1, right - 1
        if middle <= right:
            high = right
        elif middle >= left:
            low = left
        else:
            return
