"""Select the rows of changes that still are in answers: those of objects or terms that entered and have not left."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names

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
    keys, place = np.unique(columns["subscription_key"][last], return_inverse=True)
    newest = np.full(len(keys), names.NO_TIME)
    np.maximum.at(newest, place, ts)
    return np.asarray(last[~of_term | (ts == newest[place]) | (ts >= ticks_from)])


def as_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Return integers, times as microseconds, or numbers in the order of texts; null is -1 or a number of its own."""
    if pa.types.is_string(column.type):
        return np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64))
    return np.asarray(column.cast(pa.int64()).fill_null(-1).to_numpy())
