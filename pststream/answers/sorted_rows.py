"""Sort values and limits of subscriptions by the rows of the state of their bucket."""

import numpy as np

from pststream.answers.contract import BatchEnd, Thresholds, Values
from pststream.kernels.answers.columns import Columns, End, Ends, Rows
from pststream.kernels.answers.fold_rows import LimitRows
from pststream.kernels.answers.touched_rows import rows_of_keys
from pststream.kernels.radix_sort import sort_with


def key_order(keys: np.ndarray) -> np.ndarray:
    """Return the positions of keys (int64[n], not negative) in ascending order, equal ones in theirs: int32[n]."""
    if not len(keys) or np.all(keys[1:] >= keys[:-1]):
        return np.arange(len(keys), dtype=np.int32)
    least = keys.min()
    bits = max(int(keys.max() - least).bit_length(), 1)
    return np.asarray(sort_with(keys - least, np.arange(len(keys), dtype=np.int32), bits)[1])


def value_rows(columns: Columns, values: Values) -> tuple[Rows, np.ndarray]:
    """Return the values of subscriptions that the state has, by row, and the place of each in `values`: int32[n]."""
    order = key_order(values.subscription)
    rows = rows_of_keys(columns.key, values.subscription[order])
    if len(rows) and rows.min() < 0:
        order, rows = order[rows >= 0], rows[rows >= 0]
    return Rows(rows, values.object[order], values.ts[order], values.value[order]), order


def limit_rows(columns: Columns, thresholds: Thresholds) -> tuple[LimitRows, np.ndarray]:
    """Return the limits of subscriptions that the state has, by row, and which of `thresholds` these are: bool[n]."""
    rows = rows_of_keys(columns.key, thresholds.subscription.astype(np.int64))
    known = rows >= 0
    limits = LimitRows(rows[known], thresholds.value[known], thresholds.ts[known], thresholds.object[known])
    return limits, known


def end_rows(subscriptions: np.ndarray, keys: np.ndarray, at: np.ndarray) -> Ends:
    """Return the ends by deletions (keys int64[n], times int64[n]) of `subscriptions` (ascending keys), by row."""
    order = np.argsort(keys, kind="stable")
    rows = rows_of_keys(subscriptions, keys[order])
    return Ends(rows[rows >= 0], at[order][rows >= 0])


def kernel_end(end: BatchEnd) -> End:
    """Return the end of a batch as the kernels take it."""
    boundaries = np.array(end.boundaries, np.int64).reshape(-1, 2)
    return End(end.stream_time, end.last_object, np.array(end.windows, np.int64), boundaries)
