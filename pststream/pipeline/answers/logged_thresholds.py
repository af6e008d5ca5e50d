"""Read the thresholds that batches have logged, of the subscriptions of all buckets."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.pipeline.answers.log_rows import ENTRY, list_state_files, slices_of
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, read_slices, whole_file

COLUMNS = ["batch_id", "event", "subscription_key", "value"]

_Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Batch, subscription and threshold: int64[n], int64[n], float32[n]."""


def read_thresholds(home: Home, after: int, up_to: int, snapshot: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the last thresholds that the batches after < batch_id <= up_to have logged: keys int64[n], ascending, and
    values float32[n], the greatest that a buffer keeps.

    snapshot: also those in the snapshot of answers after the batch `after`, of subscriptions without a later one
    """
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    if snapshot and after:
        parts += _of_snapshot(home, after)
    parts += _of_log(home, after, up_to)
    batch, key, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((batch, key))
    last = order[np.append(np.diff(key[order]) != 0, True)[: len(order)]]
    return key[last], value[last]


def _of_log(home: Home, after: int, up_to: int) -> Iterator[_Rows]:
    files = list_state_files(home, after, up_to)
    for rows in read_slices(slices_of(home, files), COLUMNS, KeyRange("batch_id", after, up_to)):
        yield _arrays(rows.filter(pc.not_equal(rows.column("event"), ENTRY)), "value")


def _of_snapshot(home: Home, batch_id: int) -> Iterator[_Rows]:
    of_batch = KeyRange("batch_id", batch_id - 1, batch_id)
    files = of_batch.files(list_data_files(home, names.ANSWERS))
    slices = [whole_file(path) for path, _ in addresses_and_rows(home, names.ANSWERS, files)]
    for rows in read_slices(slices, ["batch_id", "subscription_key", "threshold"], of_batch):
        batch, key, value = _arrays(rows, "threshold")
        first = np.flatnonzero(np.diff(key, prepend=-1))  # a subscription has a row for each entry of its buffer
        yield batch[first], key[first], value[first]


def _arrays(rows: pa.RecordBatch, value: str) -> _Rows:
    batch, key, values = (rows.column(name).to_numpy() for name in ("batch_id", "subscription_key", value))
    return batch, key, values
