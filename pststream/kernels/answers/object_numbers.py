"""Number the objects that are in buffers, each key once, in a hash table of the state."""

import numpy as np

from pststream.kernels.answers.columns import ENDED
from pststream.kernels.compile import kernel

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
