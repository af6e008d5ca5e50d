"""Read, extend and write the sorted buffer of a subscription, best entry first; number and bound its objects."""

from typing import NamedTuple

import numpy as np

from pststream.kernels.answers.columns import ENDED, LAST_OBJECT, LIVE, NEVER, NO_TIME, Buffer
from pststream.kernels.compile import inlined, kernel
from pststream.kernels.intrinsics import borrow, prefetch

# Bound the times of blocks of objects, so that few entries need their object to be compared with a window.

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


_AHEAD = 12
"""Rows between those whose columns, whose entries and whose objects are fetched."""

_SLOTS = 8
"""Entries of a cache line."""


@inlined
def fetch_ahead(columns, rows, at):
    """Begin to fetch what a batch reads of the rows (ascending) soon after the place `at`."""
    if at + 3 * _AHEAD < len(rows):
        fetch_row(columns, rows[at + 3 * _AHEAD])
    if at + 2 * _AHEAD < len(rows):
        row = rows[at + 2 * _AHEAD]
        first = columns.first_slot[row]
        for slot in range(first, min(first + columns.size[row] + _SLOTS, len(columns.entry_value)), _SLOTS):
            prefetch(columns.entry_value, slot)
    if at + _AHEAD < len(rows):
        row = rows[at + _AHEAD]
        # The last object of the answer may leave it, and the one after it may enter.
        first, size, k = columns.first_slot[row], columns.size[row], columns.k[row]
        if size >= k:
            prefetch(columns.object_rows, np.int64(columns.entry_number[first + k - 1]))
        if size > k:
            prefetch(columns.object_rows, np.int64(columns.entry_number[first + k]))


@inlined
def fetch_row(columns, row):
    """Begin to fetch the numbers of a subscription."""
    prefetch(columns.key, row)
    prefetch(columns.status, row)
    prefetch(columns.created_at, row)
    prefetch(columns.end_at, row)
    prefetch(columns.counts_from, row)
    prefetch(columns.window_micros, row)
    prefetch(columns.window_objects, row)
    prefetch(columns.oldest, row)
    prefetch(columns.first_slot, row)
    prefetch(columns.size, row)
    prefetch(columns.k, row)
    prefetch(columns.room, row)
    prefetch(columns.threshold, row)
    prefetch(columns.limit, row)
    prefetch(columns.wakes_at, row)


@kernel
def make_buffer(room):
    """Make the arrays for a buffer of at most `room` entries."""
    return Buffer(np.empty(room, np.float32), np.empty(room, np.int64))


@inlined
def has_window(columns, row):
    """Return whether objects that count for the subscription cease to."""
    return columns.window_micros[row] > 0 or columns.window_objects[row] > 0


@inlined
def last_outside(columns, row, end):
    """Return ts and key of the last object that does not count any more, or not yet; later ones count."""
    ts, key = np.int64(NO_TIME), np.int64(LAST_OBJECT)
    if columns.counts_from[row] > NO_TIME:
        ts = columns.counts_from[row] - 1
    length = columns.window_micros[row]
    if length > 0 and end.stream_time > NO_TIME + length:
        ts = max(ts, end.stream_time - length)
    if columns.window_objects[row] > 0:
        place = np.searchsorted(end.windows, columns.window_objects[row])
        if place == len(end.windows) or end.windows[place] != columns.window_objects[row]:
            raise ValueError("no boundary is given for the window of a subscription")
        if end.boundaries[place, 0] > ts:
            ts, key = end.boundaries[place, 0], end.boundaries[place, 1]
    return ts, key


@inlined
def is_outside(ts, key, last_ts, last_key):
    """Return whether an object is not after the last one that does not count."""
    return ts < last_ts or (ts == last_ts and key <= last_key)


@inlined
def identify(columns, candidates, number):
    """Return ts and key of the object of an entry of a buffer."""
    if number >= 0:
        return columns.object_rows[number, 0], columns.object_rows[number, 1]
    return candidates.ts[-1 - number], candidates.object[-1 - number]


@inlined
def is_after(columns, candidates, value, number, other_value, other):
    """Return whether one entry comes after another, of another object."""
    if value != other_value:
        return value > other_value
    ts, key = identify(columns, candidates, number)
    other_ts, other_key = identify(columns, candidates, other)
    return ts < other_ts or (ts == other_ts and key < other_key)


@inlined
def has_left(columns, bounds, number, last_ts, last_key):
    """Return whether the object of an entry in the state does not count any more."""
    block = number >> BLOCK_BITS
    if block < len(bounds.oldest):
        if bounds.oldest[block] > last_ts:
            return False
        if bounds.newest[block] < last_ts:
            return True
    return is_outside(columns.object_rows[number, 0], columns.object_rows[number, 1], last_ts, last_key)


@inlined
def read_buffer(columns, bounds, row, last_ts, last_key, buffer):
    """Copy the entries that still count; return their number."""
    first, size = columns.first_slot[row], 0
    may_lose = columns.oldest[row] <= last_ts
    for slot in range(first, first + columns.size[row]):
        number = columns.entry_number[slot]
        if may_lose:
            if has_left(columns, bounds, number, last_ts, last_key):
                continue
        buffer.value[size], buffer.number[size] = columns.entry_value[slot], number
        size += 1
    return size


@inlined
def is_beyond_limit(columns, candidates, row, value, number):
    """Return whether an entry comes after the limit of a subscription with a window."""
    if value != columns.threshold[row]:
        return value > columns.threshold[row]
    limit = np.int64(columns.limit[row])
    return number != limit and is_after(columns, candidates, value, number, value, limit)


@inlined
def insert_entry(columns, candidates, buffer, size, most, value, number):
    """Put an object at its place among the `most` best, unless it is there; return the number of entries."""
    place = size
    while place > 0 and is_after(columns, candidates, buffer.value[place - 1], buffer.number[place - 1], value, number):
        place -= 1
    if place == most:
        return size
    if place > 0 and buffer.value[place - 1] == value:
        if identify(columns, candidates, buffer.number[place - 1])[1] == identify(columns, candidates, number)[1]:
            return size
    size = min(size + 1, most)
    for at in range(size - 1, place, -1):
        buffer.value[at], buffer.number[at] = buffer.value[at - 1], buffer.number[at - 1]
    buffer.value[place], buffer.number[place] = value, number
    return size


@inlined
def write_buffer(columns, row, buffer, size, oldest):
    """Make the entries, which have numbers, those of a live subscription.

    oldest: no entry of a subscription with a window is older than this ts
    """
    first = columns.first_slot[row]
    for place in range(size):
        put(columns.entry_value, first + place, buffer.value[place])
        put(columns.entry_number, first + place, buffer.number[place])
    put(columns.size, row, size)
    put(columns.status, row, LIVE)
    put(columns.oldest, row, oldest)
    wakes_at, length = columns.end_at[row], columns.window_micros[row]
    if length > 0 and oldest < NEVER - length:
        wakes_at = min(wakes_at, oldest + length)
    put(columns.wakes_at, row, wakes_at)


@inlined
def put(column, place, value):
    """Write a value that differs: the first write to a page of the file costs far more than the comparison."""
    if column[place] != value:
        column[place] = value


@inlined
def oldest_of(columns, bounds, buffer, size):
    """Return the least ts of entries that have numbers; NEVER if there is none."""
    oldest = np.int64(NEVER)
    # Begin with the block that may have the oldest object: most others need not be looked up then.
    first, least = 0, np.int64(NEVER)
    for place in range(size):
        block = buffer.number[place] >> BLOCK_BITS
        if block < len(bounds.oldest) and bounds.oldest[block] < least:
            first, least = place, bounds.oldest[block]
    if size > 0:
        oldest = columns.object_rows[buffer.number[first], 0]
    for place in range(size):
        block = buffer.number[place] >> BLOCK_BITS
        if block >= len(bounds.oldest) or bounds.oldest[block] < oldest:
            oldest = min(oldest, columns.object_rows[buffer.number[place], 0])
    return oldest


# Number the objects that are in buffers, each key once, in a hash table of the state.

_RUN_BITS = 4
"""Sixteen keys in a row, which often are in one batch, share a cache line."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@kernel
def number_objects(columns, used, ts, keys, numbers):
    """Write the number of each object; return the numbers in use, or -1 if there is no room for all.

    used       numbers in use so far
    ts, keys   int64[n]
    numbers    int32[n]
    """
    slots, rows = columns.number_slots, columns.object_rows
    mask = len(slots) - 1
    for at in range(len(keys)):
        run = np.int64((np.uint64(keys[at] >> _RUN_BITS) * _MULTIPLIER) >> np.uint64(32))
        slot = ((run << _RUN_BITS) + (keys[at] & ((1 << _RUN_BITS) - 1))) & mask
        while slots[slot] > 0 and rows[slots[slot] - 1, 1] != keys[at]:
            slot = (slot + 1) & mask
        if slots[slot] == 0:
            if used == len(rows):
                return -1
            rows[used, 0], rows[used, 1] = ts[at], keys[at]
            used += 1
            slots[slot] = used
        numbers[at] = slots[slot] - 1
    return used


@kernel
def mark_used(columns, used):
    """Return which numbers are those of entries or limits of subscriptions that have not ended: bool[used]."""
    marks = np.zeros(used, np.bool_)
    for row in range(len(columns.key)):
        if columns.status[row] == ENDED:
            continue
        if columns.limit[row] >= 0:
            marks[columns.limit[row]] = True
        first = columns.first_slot[row]
        for slot in range(first, first + columns.size[row]):
            marks[columns.entry_number[slot]] = True
    return marks


@kernel
def copy_entries(source, rows, target, places, numbers):
    """Copy the entries and limits of `rows` of a state to rows of another, which has their slots.

    numbers: int32[]: the number in the other state of each object of the first
    """
    for at in range(len(rows)):
        row, place = rows[at], places[at]
        first, to = source.first_slot[row], target.first_slot[place]
        target.limit[place] = numbers[source.limit[row]] if source.limit[row] >= 0 else -1
        for entry in range(source.size[row]):
            target.entry_value[to + entry] = source.entry_value[first + entry]
            target.entry_number[to + entry] = numbers[source.entry_number[first + entry]]
