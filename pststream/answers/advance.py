"""Apply a committed micro-batch to the state of a bucket, from the rows that the batch has logged.

The next batch does this before it folds. The state is then what `fold` saw: the limits that it set, and the buffers
without what has left a window. A process that is killed in between leaves a dirty file, which is built again.
"""

from collections.abc import Iterable

import numpy as np

from pststream.answers.bucket_file import BucketState, number_all
from pststream.answers.contract import BatchEnd, Logged, Subscriptions
from pststream.answers.fold import Deletions, new_subscriptions
from pststream.answers.sorted_rows import end_rows, kernel_end, limit_rows, value_rows
from pststream.kernels.answers.advance_rows import advance_rows
from pststream.kernels.answers.touched_rows import rows_to_wake, unite_rows


def advance(
    state: BucketState,
    inserted: Subscriptions,
    deleted: Deletions,
    logged: Iterable[Logged],
    end: BatchEnd,
) -> None:
    """Apply the batch that `end` describes: the insertions and deletions that `fold` took, and what it returned.

    logged: in parts by ascending key, the last one up to LAST_KEY; so a batch of any size takes the memory of a part

    Raises ValueError if the batch is not after the one of the state, or the boundary of a count window is missing.
    """
    if end.batch_id <= state.batch_id:
        raise ValueError(f"batch {end.batch_id} is not after batch {state.batch_id} of the state")
    falls = end.stream_time < state.stream_time
    state.mark_dirty()
    fresh = new_subscriptions(state, inserted, deleted)
    state.add(Subscriptions(*(array[end.stream_time < fresh.end_at] for array in fresh)))
    after = -1
    for part in logged:
        _advance_part(state, after, deleted, part, end, falls)
        after = part.up_to
    state.mark_clean(end.batch_id, end.stream_time, end.started_at)


def _advance_part(state: BucketState, after: int, deleted: Deletions, part: Logged, end: BatchEnd, falls: bool) -> None:
    """Apply a batch to the subscriptions of a part, which begin after a key; falls: stream time does."""
    numbers, limit_numbers = number_all(state, part.entries, part.thresholds)
    columns, batch_end = state.columns, kernel_end(end)
    added, order = value_rows(columns, part.entries)
    limits, known = limit_rows(columns, part.thresholds)
    ends = end_rows(columns.key, *deleted)
    if falls:
        # Subscriptions that lived may not have started any more.
        rows = np.arange(len(columns.key))
    else:
        rows = unite_rows(added.row, unite_rows(limits.row, ends.row))
        rows = unite_rows(rows, rows_to_wake(columns, batch_end))
    rows = rows[slice(*np.searchsorted(rows, np.searchsorted(columns.key, [after, part.up_to], "right")))]
    advance_rows(
        columns,
        state.bound_objects(rows),
        rows,
        added,
        numbers[order],
        limits,
        limit_numbers[known],
        part.thresholds.reset[known],
        ends,
        batch_end,
        state.greatest_room,
    )
