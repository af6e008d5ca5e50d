"""Compare the answer of a subscription before and after a batch, and write what enters and what leaves."""

from typing import NamedTuple

import numpy as np

from pststream.kernels.answers.buffers import identify, is_after
from pststream.kernels.compile import inlined, kernel


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
