"""Fold a batch into the buffers of a bucket: find touched rows, compute answers and changes, and advance the state."""

from typing import NamedTuple

import numpy as np

from pststream.kernels.answers.buffers import (
    fetch_ahead,
    has_window,
    identify,
    insert_entry,
    is_after,
    is_beyond_limit,
    is_outside,
    last_outside,
    make_buffer,
    oldest_of,
    put,
    read_buffer,
    write_buffer,
)
from pststream.kernels.answers.columns import ENDED, LIVE, NEVER, NO_TIME, WAITING, End, Ends, Rows
from pststream.kernels.compile import inlined, kernel
from pststream.kernels.intrinsics import borrow
from pststream.kernels.sort_and_search import find_near, gallop, with_room

# Write what enters and what leaves the answer of a subscription.


class ChangeRows(NamedTuple):
    """Rows of changes: int64[n,5]: subscription, 1 (enters) or 0 (leaves), rank, object, ts; and float32[n]."""

    numbers: np.ndarray
    values: np.ndarray


@kernel
def make_changes(room):
    """Make the arrays for at most `room` changes."""
    return ChangeRows(np.empty((room, 5), np.int64), np.empty(room, np.float32))


@kernel
def make_room(changes, used, wanted):
    """Return the changes with room for `wanted` rows after the `used` ones."""
    if used + wanted <= len(changes.values):
        return changes
    longer = make_changes(2 * (used + wanted))
    longer.numbers[:used], longer.values[:used] = changes.numbers[:used], changes.values[:used]
    return longer


@inlined
def write_changes(columns, candidates, row, k, buffer, size, changes, used):
    """Compare the `k` first entries of a row and of its buffer, of which the values agree; return the rows in use."""
    before, after = min(columns.size[row], k), min(size, k)
    first, old, new = columns.first_slot[row], 0, 0
    # Both are sorted alike, so one walk over both finds the differences.
    while old < before or new < after:
        slot = first + old
        if old < before and new < after and columns.entry_number[slot] == buffer.number[new]:
            old += 1
            new += 1
        elif old == before or (
            new < after
            and is_after(
                columns,
                candidates,
                columns.entry_value[slot],
                np.int64(columns.entry_number[slot]),
                buffer.value[new],
                buffer.number[new],
            )
        ):
            used = write_entered(columns, candidates, columns.key[row], buffer, new, changes, used)
            new += 1
        else:
            used = write_left(columns, row, old, changes, used)
            old += 1
    return used


@kernel
def write_replaced(columns, answers, row, key, k, buffer, size, changes, used):
    """Compare as `write_changes` does, whatever the values; row -1: a subscription without an answer so far.

    An object whose value is another one now leaves and enters.

    answers: the candidates of the buffer, which has no other entries
    """
    before, after = min(columns.size[row], k) if row >= 0 else 0, min(size, k)
    if before == 0:  # most evaluations are first answers
        for rank in range(after):
            used = write_entered(columns, answers, key, buffer, rank, changes, used)
        return used
    first = columns.first_slot[row]
    # Values may have changed, and with them the order: entries are paired by object.
    old, new = np.empty(before, np.int64), np.empty(after, np.int64)
    for rank in range(before):
        old[rank] = columns.object_rows[columns.entry_number[first + rank], 1]
    for rank in range(after):
        new[rank] = identify(columns, answers, buffer.number[rank])[1]
    old_order, new_order = np.argsort(old), np.argsort(new)
    old_sorted, new_sorted = old[old_order], new[new_order]
    for rank in range(before):
        place, value = np.searchsorted(new_sorted, old[rank]), columns.entry_value[first + rank]
        if place == after or new_sorted[place] != old[rank] or buffer.value[new_order[place]] != value:
            used = write_left(columns, row, rank, changes, used)
    for rank in range(after):
        place, value = np.searchsorted(old_sorted, new[rank]), buffer.value[rank]
        if place == before or old_sorted[place] != new[rank] or columns.entry_value[first + old_order[place]] != value:
            used = write_entered(columns, answers, key, buffer, rank, changes, used)
    return used


@inlined
def write_entered(columns, candidates, key, buffer, place, changes, used):
    """Write that an object of the buffer enters the answer; return the rows in use."""
    numbers = changes.numbers
    numbers[used, 0], numbers[used, 1], numbers[used, 2] = key, 1, place + 1
    numbers[used, 4], numbers[used, 3] = identify(columns, candidates, buffer.number[place])
    changes.values[used] = buffer.value[place]
    return used + 1


@inlined
def write_left(columns, row, place, changes, used):
    """Write that an entry in the state leaves the answer; return the rows in use."""
    slot = columns.first_slot[row] + place
    numbers = changes.numbers
    numbers[used, 0], numbers[used, 1], numbers[used, 2] = columns.key[row], 0, place + 1
    number = columns.entry_number[slot]
    numbers[used, 3], numbers[used, 4] = columns.object_rows[number, 1], columns.object_rows[number, 0]
    changes.values[used] = columns.entry_value[slot]
    return used + 1


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
    # A buffer grows by half of what is kept before it is cut, so that limits change seldom.
    is_cut = size > min(kept + (kept + 1) // 2, columns.room[row])
    return kept if is_cut else size, is_cut


class FoldedBatch(NamedTuple):
    """What a batch brings to a bucket: Rows and Ends of rows of the state, ascending, and the end of the batch.

    all_asked   whether all live subscriptions are to be evaluated, else only `asked_rows`
    asked_rows  int64[n]  rows of the state, ascending
    """

    candidates: Rows
    ends: Ends
    end: End
    all_asked: bool
    asked_rows: np.ndarray


@kernel
def fold_rows(columns, bounds, rows, batch, buffer):
    """Fold a batch into the buffers of `rows`, which its candidates, ends and asked rows are of.

    columns  Columns, the state
    bounds   ObjectBounds, of objects of the state, or of none
    rows     int64[n]  ascending
    batch    FoldedBatch
    buffer   Buffer with room for one entry more than the greatest room of the state
    Returns the entries (Rows), the limits (LimitRows), the changes, and the rows to evaluate.
    """
    # What is made here is borrowed too, and stays in memory by its other name until the kernel returns.
    made, made_limits, made_asked = make_rows(len(batch.candidates.row)), make_limits(len(rows)), np.empty_like(rows)
    entries, limits, asked = borrow(made), borrow(made_limits), borrow(made_asked)
    columns, bounds, rows, buffer = borrow(columns), borrow(bounds), borrow(rows), borrow(buffer)
    candidates, ends, end, all_asked, asked_rows = borrow(batch)
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
        # The buffer does not have the answer: the subscription is evaluated as a question.
        if lives and size < 0:
            asked[sought] = row
            sought += 1
        elif was_live:
            k = columns.k[row]
            # At most k entries leave and k enter.
            if changed + 2 * k > len(changes.values):
                changes = make_room(changes, changed, 2 * k)
            if is_limit:
                limited = write_limit(columns, candidates, limits, limited, row, buffer, size)
            # Size -1: the subscription has ended, so all of its answer leaves.
            changed = write_changes(columns, candidates, row, k, buffer, max(size, 0), changes, changed)
            used = write_new_entries(candidates, row, buffer, max(size, 0), entries, used)
    return (
        Rows(made.row[:used], made.object[:used], made.ts[:used], made.value[:used]),
        LimitRows(
            made_limits.row[:limited], made_limits.value[:limited], made_limits.ts[:limited],
            made_limits.object[:limited],
        ),
        ChangeRows(changes.numbers[:changed], changes.values[:changed]),
        made_asked[:sought].copy(),
    )  # fmt: skip


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


# Apply a committed batch, or a snapshot, to the state of a bucket.


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
    # The oldest entry may be gone, and then the least ts has to be found again.
    loses = oldest <= last_ts
    most = columns.room[row] if windowed else columns.k[row]
    for at in range(start, stop):
        size = insert_entry(columns, entries, buffer, size, most, entries.value[at], np.int64(numbers[at]))
        oldest = min(oldest, entries.ts[at])
    # The row may have a new limit: drop what comes after it.
    while windowed and size > 0:
        if not is_beyond_limit(columns, entries, row, buffer.value[size - 1], buffer.number[size - 1]):
            break
        size -= 1
    if not windowed:
        oldest = np.int64(NEVER)
    elif loses:
        oldest = oldest_of(columns, bounds, buffer, size)
    write_buffer(columns, row, buffer, size, oldest)


class LoggedBatch(NamedTuple):
    """What a committed batch does to a bucket.

    entries, limits, ends    Rows, LimitRows, Ends of rows of the state, ascending
    numbers, limit_numbers   int32[]  numbers of the objects of the entries and limits
    resets                   bool[]   whether the entries replace the buffer, of each of `limits`
    end                      End of the batch
    """

    entries: Rows
    numbers: np.ndarray
    limits: LimitRows
    limit_numbers: np.ndarray
    resets: np.ndarray
    ends: Ends
    end: End


@kernel
def advance_rows(columns, bounds, rows, batch, buffer):
    """Apply a committed batch (LoggedBatch) to `rows`, which its arrays are of; see `fold_rows`."""
    columns, bounds, rows, buffer = borrow(columns), borrow(bounds), borrow(rows), borrow(buffer)
    entries, numbers, limits, limit_numbers, resets, ends, end = borrow(batch)
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
def load_rows(columns, bounds, entries, numbers, limits, limit_numbers, buffer):
    """Fill the buffers of the rows of `limits` with the entries of a snapshot; both are ascending.

    The arguments are those of `advance_rows`, and the fields of its batch.
    """
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


# Find the rows of the state that a batch touches: those of given subscriptions, and those whose time has come.

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
        rows = with_room(rows, used + _RUN)
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
