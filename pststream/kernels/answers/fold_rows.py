"""Fold candidates and expiry into the buffers of touched subscriptions, without changing the state."""

from typing import NamedTuple

import numpy as np

from pststream.kernels.answers.buffers import (
    fetch_ahead,
    has_window,
    identify,
    insert_entry,
    is_beyond_limit,
    is_outside,
    last_outside,
    make_buffer,
    read_buffer,
)
from pststream.kernels.answers.changes import ChangeRows, make_changes, make_room, write_changes, write_replaced
from pststream.kernels.answers.columns import ENDED, LIVE, NO_TIME, Rows
from pststream.kernels.borrowed import borrow
from pststream.kernels.compile import inlined, kernel


class LimitRows(NamedTuple):
    """Limits of rows of the state; see `pststream.answers.contract.Thresholds`."""

    row: np.ndarray
    value: np.ndarray
    ts: np.ndarray
    object: np.ndarray


@kernel
def make_rows(rows):
    """Make the arrays for at most `rows` entries."""
    return Rows(
        np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.float32)
    )


@kernel
def make_limits(rows):
    """Make the arrays for the limits of at most `rows` rows."""
    return LimitRows(
        np.empty(rows, np.int64), np.empty(rows, np.float32), np.empty(rows, np.int64), np.empty(rows, np.int64)
    )


@inlined
def write_limit(columns, candidates, limits, used, row, buffer, size):
    """Write that the last entry of a buffer is its limit; return the limits in use."""
    limits.row[used], limits.value[used] = row, buffer.value[size - 1]
    limits.ts[used], limits.object[used] = identify(columns, candidates, buffer.number[size - 1])
    return used + 1


@inlined
def end_of_row(columns, row, ends, place):
    """Return the end of validity after the deletions from `place` on, and the place after those of the row."""
    end_at = columns.end_at[row]
    while place < len(ends.row) and ends.row[place] <= row:
        if ends.row[place] == row:
            end_at = min(end_at, ends.at[place])
        place += 1
    return end_at, place


@inlined
def insert_candidates(columns, row, candidates, start, stop, end, last_ts, last_key, buffer, size):
    """Put the candidates of a row that count, and are not beyond its limit, into its buffer; return its size."""
    windowed = has_window(columns, row)
    # One more than the row has room for shows that the buffer is to be cut.
    most = columns.room[row] + 1 if windowed else columns.k[row]
    for at in range(start, stop):
        value, ts, key = candidates.value[at], candidates.ts[at], candidates.object[at]
        if key > end.last_object or is_outside(ts, key, last_ts, last_key):
            continue
        if not windowed or not is_beyond_limit(columns, candidates, row, value, -1 - at):
            size = insert_entry(columns, candidates, buffer, size, most, value, -1 - at)
    return size


@kernel
def is_announced(threshold, value):
    """Return whether the limit of a full buffer without a window is recorded.

    A distance is when it has halved; a negative score whenever it changes.
    """
    return value < threshold and value <= threshold / 2


@inlined
def fold_buffer(columns, bounds, row, candidates, start, stop, end, buffer):
    """Fold candidates and expiry into the buffer of a live row; return its size, and whether its last is a new limit.

    Size -1: too few entries are left, and others that count may be beyond the limit.
    """
    last_ts, last_key = last_outside(columns, row, end)
    size = read_buffer(columns, bounds, row, last_ts, last_key, buffer)
    size = insert_candidates(columns, row, candidates, start, stop, end, last_ts, last_key, buffer, size)
    k = columns.k[row]
    if not has_window(columns, row):
        return size, size == k and is_announced(columns.threshold[row], buffer.value[k - 1])
    if size < k and columns.threshold[row] < np.inf:
        return -1, False
    kept = columns.kept[row]
    is_cut = size > min(kept + (kept + 1) // 2, columns.room[row])
    return kept if is_cut else size, is_cut


@kernel
def fold_rows(columns, bounds, rows, candidates, ends, end, all_asked, asked_rows, most):
    """Fold a batch into the buffers of `rows` (ascending).

    bounds                   of objects, or none (ObjectBounds)
    candidates, asked_rows   of rows that are among `rows`
    all_asked                whether all live subscriptions are to be evaluated, else only `asked_rows`
    most                     greatest room of the state
    Returns the entries (Rows), the limits (LimitRows), the changes, and the rows to evaluate.
    """
    buffer, entries, limits = make_buffer(most + 1), make_rows(len(candidates.row)), make_limits(len(rows))
    asked = np.empty(len(rows), np.int64)
    changes, used, limited, changed, sought = fold_each_row(
        columns, bounds, rows, candidates, ends, end, all_asked, asked_rows, buffer, entries, limits, asked
    )
    return (
        Rows(entries.row[:used], entries.object[:used], entries.ts[:used], entries.value[:used]),
        LimitRows(limits.row[:limited], limits.value[:limited], limits.ts[:limited], limits.object[:limited]),
        ChangeRows(changes.numbers[:changed], changes.values[:changed]),
        asked[:sought].copy(),
    )


@kernel
def fold_each_row(columns, bounds, rows, candidates, ends, end, all_asked, asked_rows, buffer, entries, limits, asked):
    """Fold as `fold_rows` does, into arrays with enough room; return the changes, and the lengths in use of all."""
    columns, candidates, ends, end = borrow(columns), borrow(candidates), borrow(ends), borrow(end)
    bounds, rows, asked_rows, buffer = borrow(bounds), borrow(rows), borrow(asked_rows), borrow(buffer)
    entries, limits, asked = borrow(entries), borrow(limits), borrow(asked)
    changes, count = make_changes(1024), len(candidates.row)
    used, limited, changed, sought, stop, place, wanted = 0, 0, 0, 0, 0, 0, 0
    for position in range(len(rows)):
        fetch_ahead(columns, rows, position)
        row, start = rows[position], stop
        while stop < count and candidates.row[stop] == row:
            stop += 1
        while wanted < len(asked_rows) and asked_rows[wanted] < row:
            wanted += 1
        forced = all_asked or (wanted < len(asked_rows) and asked_rows[wanted] == row)
        end_at, place = end_of_row(columns, row, ends, place)
        was_live = columns.status[row] == LIVE
        lives = columns.status[row] != ENDED and columns.created_at[row] <= end.stream_time < end_at
        size, is_limit = -1, False
        if lives and was_live and not forced:
            size, is_limit = fold_buffer(columns, bounds, row, candidates, start, stop, end, buffer)
        if lives and size < 0:
            asked[sought] = row
            sought += 1
        elif was_live:
            k = columns.k[row]
            if changed + 2 * k > len(changes.values):
                changes = make_room(changes, changed, 2 * k)
            if is_limit:
                limited = write_limit(columns, candidates, limits, limited, row, buffer, size)
            changed = write_changes(columns, candidates, row, k, buffer, max(size, 0), changes, changed)
            used = write_new_entries(candidates, row, buffer, max(size, 0), entries, used)
    return changes, used, limited, changed, sought


@inlined
def write_new_entries(candidates, row, buffer, size, entries, used):
    """Write the candidates that are in a buffer; return the entries in use."""
    for place in range(size):
        if buffer.number[place] < 0:
            at = -1 - buffer.number[place]
            entries.row[used], entries.object[used] = row, candidates.object[at]
            entries.ts[used], entries.value[used] = candidates.ts[at], candidates.value[at]
            used += 1
    return used


@kernel
def answer_rows(columns, rows, keys, ks, kept, answers, starts, stops):
    """Compare the answers before a batch with evaluations as of its end.

    rows, keys, ks, kept   of the evaluated subscriptions; row -1: it is not in the state
    answers                their values in any order; `row` is not read
    starts, stops          the slice of each
    Returns the entries (Rows: `row` is the number of the evaluation), the limits (LimitRows: likewise) and the changes.
    """
    columns, answers = borrow(columns), borrow(answers)
    buffer = make_buffer(kept.max() if len(kept) else 0)
    entries, limits = make_rows(len(answers.value)), make_limits(len(rows))
    changes = make_changes(1024)
    used, changed = 0, 0
    for at in range(len(rows)):
        size = 0
        for place in range(starts[at], stops[at]):
            size = insert_entry(columns, answers, buffer, size, kept[at], answers.value[place], -1 - place)
        if size == kept[at]:
            write_limit(columns, answers, limits, at, at, buffer, size)
        else:
            limits.row[at], limits.value[at], limits.ts[at], limits.object[at] = at, np.inf, NO_TIME, -1
        changes = make_room(changes, changed, 2 * ks[at])
        row = rows[at] if rows[at] >= 0 and columns.status[rows[at]] == LIVE else -1
        changed = write_replaced(columns, answers, row, keys[at], ks[at], buffer, size, changes, changed)
        used = write_new_entries(answers, at, buffer, size, entries, used)
    return (
        Rows(entries.row[:used], entries.object[:used], entries.ts[:used], entries.value[:used]),
        limits,
        ChangeRows(changes.numbers[:changed], changes.values[:changed]),
    )
