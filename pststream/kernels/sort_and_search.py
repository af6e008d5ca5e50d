"""Sort integers, search sorted arrays, and make room in arrays.

Many integers are sorted by radix: one pass for each 11 bits in which they differ.
"""

import numpy as np

from pststream.kernels.compile import kernel, leaf

_DIGIT_BITS = 11
_DIGITS = 1 << _DIGIT_BITS


@kernel
def _count_digits(keys, passes, low):
    """Count the digits of all passes in one walk: int64[passes, _DIGITS]."""
    counts = np.zeros((passes, _DIGITS), np.int64)
    for i in range(len(keys)):
        key = np.uint64(keys[i]) >> np.uint64(low)
        for step in range(passes):
            counts[step, key & np.uint64(_DIGITS - 1)] += 1
            key >>= np.uint64(_DIGIT_BITS)
    return counts


@kernel
def _first_places(counts):
    """Replace the count of each digit by the place of its first key; return whether all keys have the same digit."""
    total, greatest = 0, 0
    for digit in range(_DIGITS):
        count = counts[digit]
        counts[digit] = total
        total += count
        greatest = max(greatest, count)
    return greatest == total


@kernel
def sort_values(values, low, high):
    """Sort `values` (uint64[n]) by their bits in [low, high), the earlier of equal ones first; return them."""
    passes = (high - low + _DIGIT_BITS - 1) // _DIGIT_BITS
    counts = _count_digits(values, passes, low)
    other = np.empty_like(values)
    for step in range(passes):
        places = counts[step]
        if _first_places(places):
            continue
        shift = np.uint64(low + step * _DIGIT_BITS)
        for i in range(len(values)):
            digit = (values[i] >> shift) & np.uint64(_DIGITS - 1)
            other[places[digit]] = values[i]
            places[digit] += 1
        values, other = other, values
    return values


@kernel
def sort_with(keys, numbers, bits):
    """Sort `keys` (int64[n], not negative, of `bits` bits) with their `numbers` (int32[n]), stably; return both."""
    passes = (bits + _DIGIT_BITS - 1) // _DIGIT_BITS
    counts = _count_digits(keys, passes, 0)
    other_keys, other_numbers = np.empty_like(keys), np.empty_like(numbers)
    for step in range(passes):
        places = counts[step]
        if _first_places(places):
            continue
        shift = np.int64(step * _DIGIT_BITS)
        for i in range(len(keys)):
            digit = (keys[i] >> shift) & (_DIGITS - 1)
            place = places[digit]
            other_keys[place] = keys[i]
            other_numbers[place] = numbers[i]
            places[digit] = place + 1
        keys, other_keys = other_keys, keys
        numbers, other_numbers = other_numbers, numbers
    return keys, numbers


@leaf
def sort_few(values):
    """Sort a few values in place, by insertion."""
    for i in range(1, len(values)):
        moved, at = values[i], i
        while at > 0 and values[at - 1] > moved:
            values[at] = values[at - 1]
            at -= 1
        values[at] = moved


@leaf
def drop_repeats(values):
    """Move the distinct ones of ascending values to the front; return their number."""
    kept = 0
    for i in range(len(values)):
        if i == 0 or values[i] != values[kept - 1]:
            values[kept] = values[i]
            kept += 1
    return kept


@kernel
def transpose(offsets, columns, count):
    """Return the rows of each of `count` columns, ascending: their offsets int64[count+1], and rows int32[m].

    offsets, columns  int[n+1], int[m]: the columns of each row
    """
    starts = np.zeros(count + 1, np.int64)
    for place in range(len(columns)):
        starts[columns[place] + 1] += 1
    for column in range(count):
        starts[column + 1] += starts[column]
    # Write each row to the next free place of its columns.
    free = starts.copy()
    rows = np.empty(len(columns), np.int32)
    for row in range(len(offsets) - 1):
        for place in range(offsets[row], offsets[row + 1]):
            column = columns[place]
            rows[free[column]] = row
            free[column] += 1
    return starts, rows


@kernel
def with_room(array, size):
    """Return an array that begins with the rows of `array` and has room for `size` rows or more."""
    if size <= len(array):
        return array
    longer = np.empty((max(size, 2 * len(array)),) + array.shape[1:], array.dtype)
    longer[: len(array)] = array
    return longer


@leaf
def gallop(values, low, high, wanted):
    """Return the first position in [low, high) whose value is at least `wanted`, else `high`; fast if near `low`."""
    step = 1
    probe = low
    while probe < high and values[probe] < wanted:
        low = probe + 1
        probe += step
        step *= 2
    return find(values, low, min(probe, high), wanted)


@leaf
def find_near(values, low, guess, wanted):
    """Return the first position from `low` on whose value is at least `wanted`, else the length; fast if near `guess`.

    guess: a position, or `low` - 1
    """
    if guess < low or values[guess] < wanted:
        return gallop(values, max(low, guess + 1), len(values), wanted)
    step, high, probe = 1, guess, guess - 1
    while probe >= low and values[probe] >= wanted:
        high = probe
        probe -= step
        step *= 2
    return find(values, max(low, probe + 1), high, wanted)


@leaf
def find(values, low, high, wanted):
    """Return the first position in [low, high) whose value is at least `wanted`, else `high`; without branches."""
    size = high - low
    while size > 1:
        half = size >> 1
        low += half * (values[low + half - 1] < wanted)
        size -= half
    return low + (size == 1 and values[low] < wanted)


def find_all_positions(values: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all positions of each of `wanted` in ascending `values`: int64[n], and their indexes in `wanted`."""
    low, high = (np.searchsorted(values, wanted, side) for side in ("left", "right"))
    widths = high - low
    within = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
    return np.repeat(low, widths) + within, np.repeat(np.arange(len(wanted)), widths)
