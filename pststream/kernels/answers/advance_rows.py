"""Apply a committed batch, or a snapshot, to the state of a bucket."""

import numpy as np

from pststream.kernels.answers.buffers import (
    fetch_ahead,
    has_window,
    insert_entry,
    is_beyond_limit,
    last_outside,
    make_buffer,
    oldest_of,
    put,
    read_buffer,
    write_buffer,
)
from pststream.kernels.answers.columns import ENDED, LIVE, NEVER, NO_TIME, WAITING
from pststream.kernels.answers.fold_rows import end_of_row, make_rows
from pststream.kernels.borrowed import borrow
from pststream.kernels.compile import inlined, kernel


@inlined
def empty_row(columns, row, status):
    """Empty the buffer of a subscription that has ended, or has not started."""
    columns.status[row], columns.size[row] = status, 0
    columns.threshold[row], columns.limit[row], columns.oldest[row] = np.inf, -1, NEVER
    columns.wakes_at[row] = min(columns.created_at[row], columns.end_at[row]) if status == WAITING else NEVER


@inlined
def advance_buffer(columns, bounds, row, entries, numbers, start, stop, is_reset, last_ts, last_key, buffer):
    """Bring the buffer of a live row to the end of the batch, under the limit that the row has."""
    size = 0 if is_reset else read_buffer(columns, bounds, row, last_ts, last_key, buffer)
    windowed = has_window(columns, row)
    oldest = columns.oldest[row] if size else np.int64(NEVER)
    loses = oldest <= last_ts
    most = columns.room[row] if windowed else columns.k[row]
    for at in range(start, stop):
        size = insert_entry(columns, entries, buffer, size, most, entries.value[at], np.int64(numbers[at]))
        oldest = min(oldest, entries.ts[at])
    while windowed and size > 0:
        if not is_beyond_limit(columns, entries, row, buffer.value[size - 1], buffer.number[size - 1]):
            break
        size -= 1
    if not windowed:
        oldest = np.int64(NEVER)
    elif loses:
        oldest = oldest_of(columns, bounds, buffer, size)
    write_buffer(columns, row, buffer, size, oldest)


@kernel
def advance_rows(columns, bounds, rows, entries, numbers, limits, limit_numbers, resets, ends, end, most):
    """Apply a committed batch to `rows` (ascending).

    bounds                   of objects, or none (ObjectBounds)
    entries, limits, ends    of rows that are among `rows`, ascending
    numbers, limit_numbers   int32[]: numbers of their objects
    resets                   bool[]: whether the entries replace the buffer, of each of `limits`
    most                     greatest room of the state
    """
    buffer = make_buffer(most + 1)
    advance_each_row(columns, bounds, rows, entries, numbers, limits, limit_numbers, resets, ends, end, buffer)


@kernel
def advance_each_row(columns, bounds, rows, entries, numbers, limits, limit_numbers, resets, ends, end, buffer):
    """Apply a batch as `advance_rows` does, in a buffer of enough room."""
    columns, rows, entries, numbers = borrow(columns), borrow(rows), borrow(entries), borrow(numbers)
    limits, limit_numbers, resets = borrow(limits), borrow(limit_numbers), borrow(resets)
    ends, end, buffer, bounds = borrow(ends), borrow(end), borrow(buffer), borrow(bounds)
    stop, limit, place = 0, 0, 0
    for position in range(len(rows)):
        fetch_ahead(columns, rows, position)
        row, start = rows[position], stop
        while stop < len(entries.row) and entries.row[stop] == row:
            stop += 1
        end_at, place = end_of_row(columns, row, ends, place)
        put(columns.end_at, row, end_at)
        is_reset = False
        if limit < len(limits.row) and limits.row[limit] == row:
            columns.threshold[row], columns.limit[row] = limits.value[limit], limit_numbers[limit]
            is_reset = resets[limit]
            limit += 1
        if end.stream_time >= end_at:
            empty_row(columns, row, ENDED)
        elif end.stream_time < columns.created_at[row]:
            empty_row(columns, row, WAITING)
        elif is_reset or columns.status[row] == LIVE:
            last_ts, last_key = last_outside(columns, row, end)
            advance_buffer(columns, bounds, row, entries, numbers, start, stop, is_reset, last_ts, last_key, buffer)
        else:
            # It has started and was not evaluated: the next batch asks for it.
            empty_row(columns, row, WAITING)


@kernel
def load_rows(columns, bounds, entries, numbers, limits, limit_numbers, most):
    """Fill the buffers of the rows of `limits` with the entries of a snapshot; both are ascending."""
    load_each_row(columns, bounds, entries, numbers, limits, limit_numbers, make_buffer(most + 1))


@kernel
def load_each_row(columns, bounds, entries, numbers, limits, limit_numbers, buffer):
    """Fill buffers as `load_rows` does, in a buffer of enough room."""
    columns, entries, numbers, buffer = borrow(columns), borrow(entries), borrow(numbers), borrow(buffer)
    bounds, limits, limit_numbers = borrow(bounds), borrow(limits), borrow(limit_numbers)
    stop = 0
    for at in range(len(limits.row)):
        row, start = limits.row[at], stop
        while stop < len(entries.row) and entries.row[stop] == row:
            stop += 1
        columns.threshold[row], columns.limit[row] = limits.value[at], limit_numbers[at]
        advance_buffer(columns, bounds, row, entries, numbers, start, stop, True, NO_TIME, -1, buffer)


@kernel
def read_entries(columns, rows):
    """Return the entries of rows in their order."""
    entries = make_rows(columns.size[rows].sum())
    columns, used = borrow(columns), 0
    for row in rows:
        first = columns.first_slot[row]
        for slot in range(first, first + columns.size[row]):
            number = columns.entry_number[slot]
            entries.row[used], entries.value[used] = row, columns.entry_value[slot]
            entries.ts[used], entries.object[used] = columns.object_rows[number, 0], columns.object_rows[number, 1]
            used += 1
    return entries
