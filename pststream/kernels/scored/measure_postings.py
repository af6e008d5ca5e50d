"""Compute the numbers of the postings of subscriptions, and order the postings of each word so that like ones meet."""

import math

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.circle import EARTH_RADIUS_M
from pststream.kernels.scored.index_arrays import (
    ALPHA,
    BLOCK,
    FIELDS,
    GREATEST,
    NEED,
    NORM,
    RATE,
    SUM,
    WEIGHT,
    X,
    Y,
    Z,
    need_of,
    point_in_space,
    signature_of,
)

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
        for place in range(offsets[row] + 1, offsets[row + 1]):
            word, at = words[place], place
            while at > offsets[row] and words[at - 1] > word:
                words[at] = words[at - 1]
                at -= 1
            words[at] = word


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
            numbers[place, X], numbers[place, Y], numbers[place, Z] = x, y, z
            numbers[place, RATE], numbers[place, ALPHA], numbers[place, NEED] = rate, alpha, need
            numbers[place, WEIGHT], numbers[place, NORM] = share * weight, share * math.sqrt(square)
            numbers[place, SUM], numbers[place, GREATEST] = share * total, share * greatest
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
    unit = numbers[place, RATE] if axis <= Z else UNITS[axis]
    return np.float32(numbers[place, axis] * unit)


@kernel
def _widest_axis(order: np.ndarray, numbers: np.ndarray) -> int:
    """Return the axis with the greatest variance in a sample of the postings."""
    step = max(1, len(order) // SAMPLED)
    widest, greatest = X, -1.0
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
