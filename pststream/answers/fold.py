"""Compute what a micro-batch changes in the answers of a bucket, and apply a committed batch to its state.

`fold` takes the candidates of the batch: objects of it whose value is at most the threshold of a subscription that the
index had. It drops those that do not count, repeat, or come after the limit. The result lists the subscriptions to
evaluate: those that start with this batch, and those with too few entries left. The caller evaluates them over all
objects up to the end of the batch, and `fold_answers` completes the result. Neither function writes the state, so both
may be repeated; `advance` writes it.

Source: Skype, section 6 (buffers above a threshold). Departures: the buffer is the plain one: it also keeps what `k`
newer and better objects dominate, so that a late object needs no counters. A buffer that has grown by half is cut to
`kept` entries and the threshold rises to the last of them; in the paper it stays until the next evaluation.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from pststream.answers.bucket_file import (
    BucketState,
    end_rows,
    kept_of,
    kernel_end,
    key_order,
    limit_rows,
    number_all,
    value_rows,
)
from pststream.answers.contract import Asked, BatchEnd, Changes, Folded, Logged, Subscriptions, Thresholds, Values
from pststream.kernels.answers.buffers import make_buffer
from pststream.kernels.answers.columns import ENDED, Rows
from pststream.kernels.answers.fold_rows import (
    ChangeRows,
    FoldedBatch,
    LimitRows,
    LoggedBatch,
    advance_rows,
    answer_rows,
    fold_rows,
    rows_of_keys,
    rows_to_wake,
    unite_rows,
)

Arrays = TypeVar("Arrays", Values, Thresholds, Changes, Asked, Subscriptions)

Deletions = tuple[np.ndarray, np.ndarray]
"""Keys of insertions, and the ends that deletions give them: both int64[n]."""


def fold(
    state: BucketState,
    inserted: Subscriptions,
    deleted: Deletions,
    candidates: Values,
    end: BatchEnd,
    reevaluate: bool | np.ndarray = False,
) -> Folded:
    """Return what the batch changes, except for the subscriptions that are to be evaluated (`asked`).

    state        after the batch before
    inserted     insertions of the batch; after a fall of stream time also those that had ended and live again. A
                 subscription that the state has is left out
    candidates   see above; may have more than is wanted
    reevaluate   True: ask for all live subscriptions, because objects were withdrawn or values mean something else;
                 or the keys (int64[n]) of those to ask for

    Raises ValueError if the batch is not after the one of the state, or the boundary of a count window is missing.
    """
    if end.batch_id <= state.batch_id:
        raise ValueError(f"batch {end.batch_id} is not after batch {state.batch_id} of the state")
    columns = state.columns
    rows_of_values, _ = value_rows(columns, candidates)
    ends = end_rows(columns.key, *deleted)
    all_asked = reevaluate is True
    asked_rows = np.empty(0, np.int64)
    if not isinstance(reevaluate, bool):
        asked_rows = rows_of_keys(columns.key, np.sort(reevaluate))
        asked_rows = asked_rows[asked_rows >= 0]
    batch_end = kernel_end(end)
    if all_asked:
        # A subscription that had ended and lives again is among the insertions.
        rows = np.flatnonzero(columns.status != ENDED)
    else:
        rows = unite_rows(rows_of_values.row, rows_to_wake(columns, batch_end))
        rows = unite_rows(rows, unite_rows(ends.row, asked_rows))
    bounds = state.bound_objects(rows)
    batch = FoldedBatch(candidates=rows_of_values, ends=ends, end=batch_end, all_asked=all_asked, asked_rows=asked_rows)
    buffer = make_buffer(state.greatest_room + 1)
    entries, limits, changes, asked = fold_rows(columns, bounds, rows, batch, buffer)
    fresh = new_subscriptions(state, inserted, deleted)
    fresh = _cut(fresh, (fresh.created_at <= end.stream_time) & (end.stream_time < fresh.end_at))
    keys, kept = np.concatenate([columns.key[asked], fresh.key]), np.concatenate([columns.kept[asked], kept_of(fresh)])
    order = np.argsort(keys, kind="stable")
    to_evaluate = Asked(keys[order], np.concatenate([columns.k[asked], fresh.k])[order], kept[order])
    thresholds = _to_thresholds(limits, columns.key, False)
    return Folded(_to_values(entries, columns.key), thresholds, _to_changes(changes), to_evaluate)


def split_asked(folded: Folded, most: int, most_values: int) -> Iterator[Folded]:
    """Yield the result of `fold` in parts: first all that is known, then the subscriptions that it asks for.

    A part asks for `most` subscriptions at most, which keep `most_values` values at most; or for a single subscription.
    """
    asked, none, first = folded.asked, slice(0), 0
    yield folded._replace(asked=_cut(asked, none))
    unknown = Folded(_cut(folded.entries, none), _cut(folded.thresholds, none), _cut(folded.changes, none), asked)
    before = np.append(0, np.cumsum(asked.kept, dtype=np.int64))
    while first < len(asked.kept):
        after = int(np.searchsorted(before, before[first] + most_values, "right")) - 1
        after = max(first + 1, min(after, first + most))
        yield unknown._replace(asked=_cut(asked, slice(first, after)))
        first = after


def fold_answers(state: BucketState, folded: Folded, answers: Values) -> Folded:
    """Complete the result of `fold` with the evaluations of the subscriptions that it asks for.

    answers: the `kept` best objects of each as of the end of the batch, in any order; fewer if fewer count
    """
    asked = folded.asked
    if not len(asked.subscription):
        return folded
    order = key_order(answers.subscription)
    answers = _cut(answers, order)
    starts, stops = (np.searchsorted(answers.subscription, asked.subscription, side) for side in ("left", "right"))
    entries, limits, changes = answer_rows(
        state.columns,
        rows_of_keys(state.columns.key, asked.subscription),
        asked.subscription,
        asked.k,
        asked.kept,
        Rows(answers.subscription, answers.object, answers.ts, answers.value),
        starts,
        stops,
    )
    thresholds = _join(folded.thresholds, _to_thresholds(limits, asked.subscription, True))
    order = np.argsort(thresholds.subscription, kind="stable")
    return Folded(
        _join(folded.entries, _to_values(entries, asked.subscription)),
        _cut(thresholds, order),
        _join(folded.changes, _to_changes(changes)),
        _cut(asked, slice(0)),
    )


def new_subscriptions(state: BucketState, inserted: Subscriptions, deleted: Deletions) -> Subscriptions:
    """Return the insertions that the state does not have, with the ends of validity that deletions give them."""
    rows = rows_of_keys(state.columns.key, inserted.key)
    is_new = rows < 0
    is_new[~is_new] = state.columns.status[rows[~is_new]] == ENDED
    return with_ends(_cut(inserted, is_new), deleted)


def with_ends(subscriptions: Subscriptions, deleted: Deletions) -> Subscriptions:
    """Return subscriptions (by ascending key) with the ends of validity that deletions give them."""
    ends = end_rows(subscriptions.key, *deleted)
    end_at = subscriptions.end_at.copy()
    np.minimum.at(end_at, ends.row, ends.at)
    return subscriptions._replace(end_at=end_at)


def _to_values(rows: Rows, keys: np.ndarray) -> Values:
    return Values(keys[rows.row], rows.object, rows.ts, rows.value)


def _to_thresholds(limits: LimitRows, keys: np.ndarray, reset: bool) -> Thresholds:
    return Thresholds(keys[limits.row], limits.value, limits.ts, limits.object, np.full(len(limits.row), reset))


def _to_changes(changes: ChangeRows) -> Changes:
    key, entered, rank, number, ts = changes.numbers.T
    return Changes(key.copy(), entered == 1, rank.astype(np.int32), number.copy(), ts.copy(), changes.values)


def _join(one: Arrays, other: Arrays) -> Arrays:
    return type(one)(*(np.concatenate(pair) for pair in zip(one, other)))


def _cut(arrays: Arrays, part: slice | np.ndarray) -> Arrays:
    return type(arrays)(*(array[part] for array in arrays))


def advance(
    state: BucketState, inserted: Subscriptions, deleted: Deletions, logged: Iterable[Logged], end: BatchEnd
) -> None:
    """Apply the batch that `end` describes: the insertions and deletions that `fold` took, and what it returned.

    logged: in parts by ascending key, the last one up to LAST_KEY; so a batch of any size takes the memory of a part

    The next batch does this before it folds. The state is then what `fold` saw: the limits that it set, and the buffers
    without what has left a window. A process that is killed in between leaves a dirty file, which is built again.

    Raises ValueError if the batch is not after the one of the state, or the boundary of a count window is missing.
    """
    if end.batch_id <= state.batch_id:
        raise ValueError(f"batch {end.batch_id} is not after batch {state.batch_id} of the state")
    falls = end.stream_time < state.stream_time
    state.mark_dirty()
    fresh = new_subscriptions(state, inserted, deleted)
    state.add(_cut(fresh, end.stream_time < fresh.end_at))
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
    batch = LoggedBatch(
        entries=added,
        numbers=numbers[order],
        limits=limits,
        limit_numbers=limit_numbers[known],
        resets=part.thresholds.reset[known],
        ends=ends,
        end=batch_end,
    )
    advance_rows(columns, state.bound_objects(rows), rows, batch, make_buffer(state.greatest_room + 1))
