"""Find the rows of the state that a batch touches: those of given subscriptions, and those whose time has come."""

import numpy as np

from pststream.kernels.answers.buffers import is_outside, last_outside
from pststream.kernels.answers.columns import NEVER, NO_TIME
from pststream.kernels.borrowed import borrow
from pststream.kernels.compile import inlined, kernel
from pststream.kernels.search import find_near, gallop

_RUN = 1024
"""Rows that are passed over together."""

_FEW = 16
"""Keys for each one that is wanted, from which on its row is guessed."""


@kernel
def rows_of_keys(keys, wanted):
    """Return the row of each of `wanted` (ascending) in ascending `keys`, -1 if it is not there: int64[n].

    Keys are positions in a log, and those of a bucket are chosen by a hash, so they are spread evenly. Where few of
    many are wanted, each is sought from the row that the mean distance of keys suggests, mostly in a near cache line.
    """
    rows = np.empty(len(wanted), np.int64)
    row, last = 0, len(keys) - 1
    are_few = len(wanted) * _FEW < len(keys)
    rows_per_key = last / max(keys[last] - keys[0], 1) if last > 0 else 0.0
    for at in range(len(wanted)):
        if are_few and row <= last and keys[row] < wanted[at]:
            ahead = min(np.int64((wanted[at] - keys[row]) * rows_per_key), last - row)
            row = find_near(keys, row + 1, row + ahead, wanted[at])
        else:
            row = gallop(keys, row, len(keys), wanted[at])
        rows[at] = row if row <= last and keys[row] == wanted[at] else -1
    return rows


@kernel
def rows_to_wake(columns, end):
    """Return the rows that start, end or may lose an entry up to the end of a batch: int64[], ascending."""
    columns, end = borrow(columns), borrow(end)
    rows, used = np.empty(_RUN, np.int64), 0
    newest = np.int64(NO_TIME)
    for place in range(len(end.boundaries)):
        newest = max(newest, end.boundaries[place, 0])
    for start in range(0, len(columns.key), _RUN):
        stop = min(start + _RUN, len(columns.key))
        # Loops without a branch pass over most runs.
        any_wakes = least_of(columns.wakes_at, start, stop) <= end.stream_time
        any_loses = newest > NO_TIME and least_of(columns.oldest, start, stop) <= newest
        if not (any_wakes or any_loses):
            continue
        if used + _RUN > len(rows):
            longer = np.empty(2 * (used + _RUN), np.int64)
            longer[:used] = rows[:used]
            rows = longer
        for row in range(start, stop):
            wakes = columns.wakes_at[row] <= end.stream_time
            if not wakes and columns.window_objects[row] > 0 and columns.oldest[row] <= newest:
                last_ts, last_key = last_outside(columns, row, end)
                wakes = is_outside(columns.oldest[row], np.int64(-1), last_ts, last_key)
            if wakes:
                rows[used] = row
                used += 1
    return rows[:used].copy()


@inlined
def least_of(times, start, stop):
    """Return the least of some times."""
    least = np.int64(NEVER)
    for row in range(start, stop):
        least = min(least, times[row])
    return least


@kernel
def unite_rows(one, other):
    """Return the rows of two ascending lists, each once: int64[], ascending."""
    rows = np.empty(len(one) + len(other), np.int64)
    used, a, b = 0, 0, 0
    while a < len(one) or b < len(other):
        row = one[a] if b == len(other) or (a < len(one) and one[a] <= other[b]) else other[b]
        while a < len(one) and one[a] == row:
            a += 1
        while b < len(other) and other[b] == row:
            b += 1
        rows[used] = row
        used += 1
    return rows[:used].copy()
