"""Define the arrays of a micro-batch for a bucket and their results, assign buckets, and select present rows.

A subscription with memory (kinds `knn`, `topk`) has an answer: its `k` best objects of those that count for it. Objects
are ordered by `value`, the least first: the distance in metres (`knn`), or the negative score (`topk`), both float32.
Of equal values the greater `ts` comes first, then the greater object key.

A bucket has the subscriptions with the same hash. Its state has a buffer for each live subscription: every object that
counts and does not come after the limit of the subscription, at least the `k` best unless fewer count at all. The limit
is an object: its value alone, the threshold, would not bound the buffer, since any number of objects may have the same
value. A subscription without a window keeps its `k` best and nothing else: none of them ever leaves, so its limit is
the last of them, and its threshold is recorded when it has halved.
Answers after a batch are a function of both logs up to the end of the batch; they do not depend on the limits.

Times are microseconds since 1970 in UTC.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import hash_integers


class Subscriptions(NamedTuple):
    """Insertions of one bucket, by ascending key. All arrays have n elements.

    key             int64    request key of the insertion
    k               int32    size of the answer
    kept            int32    entries that an evaluation keeps (K0): at least k
    window_micros   int64    length of a time window; 0: none
    window_objects  int64    length of a count window; 0: none
    counts_from     int64    least ts of an object that counts: `created_at` of a `knn` without a window; NO_TIME: any
    created_at      int64    start of validity
    end_at          int64    end of validity (exclusive), names.NEVER_US: never
    """

    key: np.ndarray
    k: np.ndarray
    kept: np.ndarray
    window_micros: np.ndarray
    window_objects: np.ndarray
    counts_from: np.ndarray
    created_at: np.ndarray
    end_at: np.ndarray


class BatchEnd(NamedTuple):
    """The end of a micro-batch, which decides what lives and what counts.

    batch_id      number of the batch
    stream_time   greatest ts of the objects up to `last_object`, names.NO_TIME: none
    last_object   greatest object key that counts
    windows       int64[w]    the lengths of count windows, ascending, each once
    boundaries    int64[w,2]  ts and key of the object before the window of that length; objects up to it do not count
    started_at    start of the batch by the clock; a batch of the same number before a restore has another
    """

    batch_id: int
    stream_time: int
    last_object: int
    windows: np.ndarray
    boundaries: np.ndarray
    started_at: int = 0


class Values(NamedTuple):
    """Objects with their values for subscriptions, one row a pair, in any order. All arrays have n elements.

    subscription   int64     key of the subscription
    object         int64     key of the object
    ts             int64     ts of the object
    value          float32   see above
    """

    subscription: np.ndarray
    object: np.ndarray
    ts: np.ndarray
    value: np.ndarray


class Thresholds(NamedTuple):
    """Limits of subscriptions that a batch changes, by ascending key. All arrays have n elements.

    In a snapshot of a bucket, the limits of all live subscriptions; then `reset` has no meaning.

    subscription   int64     key of the subscription
    value          float32   threshold: the value of the limit; infinity: the buffer keeps all that counts
    ts, object     int64     ts and key of the limit; names.NO_TIME and -1 if the threshold is infinite
    reset          bool      the entries of this batch replace all earlier entries of the buffer
    """

    subscription: np.ndarray
    value: np.ndarray
    ts: np.ndarray
    object: np.ndarray
    reset: np.ndarray


class Logged(NamedTuple):
    """Entries and limits of some subscriptions, as batches have logged them or as a snapshot has them.

    up_to   they are of all subscriptions with keys up to this, and above the one of the part before
    """

    entries: Values
    thresholds: Thresholds
    up_to: int = names.MAX_INT64


class Changes(NamedTuple):
    """Rows that enter or leave answers, by subscription. All arrays have n elements.

    subscription   int64     key of the subscription
    entered        bool      whether the object enters; else it leaves
    rank           int32     from 1: of an object that enters, in the answer after the batch; else in the one before
    object, ts, value        as in `Values`
    """

    subscription: np.ndarray
    entered: np.ndarray
    rank: np.ndarray
    object: np.ndarray
    ts: np.ndarray
    value: np.ndarray


class Asked(NamedTuple):
    """Subscriptions to evaluate as of the end of the batch, by ascending key. All arrays have n elements.

    subscription   int64   key of the subscription
    k              int32   size of its answer
    kept           int32   best values that the evaluation returns, fewer if fewer count
    """

    subscription: np.ndarray
    k: np.ndarray
    kept: np.ndarray


class Folded(NamedTuple):
    """What a batch changes in a bucket.

    entries      objects that enter buffers and stay in them, by subscription
    thresholds   see above
    changes      changes of answers
    asked        subscriptions to evaluate; the other fields have nothing about them yet
    """

    entries: Values
    thresholds: Thresholds
    changes: Changes
    asked: Asked


_SALT = 28


def bucket_of(keys: np.ndarray, buckets: int) -> np.ndarray:
    """Return the bucket of each subscription by its key (int64[n]): int64[n], from 0 to `buckets` - 1."""
    return (hash_integers(keys, _SALT) % np.uint64(buckets)).astype(np.int64)


OLD_CHANGES = "old-changes"
"""The application of the commits that removed old changes; the transaction id is the last batch with old changes."""

IDENTIFYING = ("batch_id", "subscription_key", "object_key", "ts", "term")


def remaining_rows(rows: pa.Table, ticks_from: int = names.NEVER_US) -> np.ndarray:
    """Return the places of the rows that entered and have not left: int64[n].

    Of `frequent_terms`, whose `ts` is a tick, these are the rows of the last tick of each subscription, which is its
    answer, and of all ticks from `ticks_from` (microseconds) on.
    """
    columns = {name: as_numbers(rows.column(name)) for name in IDENTIFYING}
    entered = pc.equal(rows.column("event"), "entered").to_numpy()
    identity = [columns[name] for name in ("term", "ts", "object_key", "subscription_key")]
    order = np.lexsort((entered, columns["batch_id"], *identity))
    is_last = np.ones(len(order), bool)
    is_last[:-1] = np.any([column[order][1:] != column[order][:-1] for column in identity], axis=0)
    last = order[is_last]
    last = last[entered[last]]
    ts, of_term = columns["ts"][last], columns["object_key"][last] < 0
    # The last tick of each subscription.
    keys, index = np.unique(columns["subscription_key"][last], return_inverse=True)
    newest = np.full(len(keys), names.NO_TIME)
    np.maximum.at(newest, index, ts)
    return np.asarray(last[~of_term | (ts == newest[index]) | (ts >= ticks_from)])


def as_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Return integers, times as microseconds, or numbers in the order of texts; null is -1 or a number of its own."""
    if pa.types.is_string(column.type):
        return np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64))
    return np.asarray(column.cast(pa.int64()).fill_null(-1).to_numpy())
