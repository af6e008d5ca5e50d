"""Build a hash table of term ids and look terms up in it: open addressing, the id and its value side by side.

A table is int64[2^b,2]: a term id and its value (not negative), or any number and -1 for a free slot.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import prefetch

_AHEAD = 32
"""Terms whose slots are fetched early."""


@kernel
def make_term_table(terms, values):
    """Return a table of distinct `terms` (int64[n]) with their `values` (int64[n]); at most half of it is used."""
    size = 8
    while size < 2 * len(terms):
        size *= 2
    table = np.full((size, 2), -1, np.int64)
    shift = table_shift(table)
    for t in range(len(terms)):
        slot = slot_of(terms[t], shift)
        while table[slot, 1] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot, 0] = terms[t]
        table[slot, 1] = values[t]
    return table


@kernel
def table_shift(table):
    """Bits by which a mixed term id is shifted to its slot."""
    bits = 0
    while (1 << bits) < len(table):
        bits += 1
    return 64 - bits


@kernel
def slot_of(term, shift):
    """Home slot of a term id (the ids are hashes already; multiply to use their high bits)."""
    return np.int64((np.uint64(term) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))


@kernel
def find_value(term, slot, table):
    """Value of a term id whose home slot is `slot`, or -1."""
    while table[slot, 1] >= 0:
        if table[slot, 0] == term:
            return table[slot, 1]
        slot = (slot + 1) & (len(table) - 1)
    return np.int64(-1)


@kernel
def look_up(term, table):
    """Value of a term id, or -1."""
    return find_value(term, slot_of(term, table_shift(table)), table)


@kernel
def find_values(terms, table):
    """Return the value of each of `terms` (int64[n], any), or -1: int64[n]."""
    shift = table_shift(table)
    slots, values = np.empty(len(terms), np.int64), np.empty(len(terms), np.int64)
    for place in range(len(terms)):
        slots[place] = slot_of(terms[place], shift)
    for place in range(len(terms)):
        if place + _AHEAD < len(terms):
            prefetch(table, slots[place + _AHEAD])
        values[place] = find_value(terms[place], slots[place], table)
    return values
