"""Read the buffers and the limits of a bucket's state: what a snapshot of the bucket has."""

from collections.abc import Iterator

import numpy as np

from pststream.answers.bucket_file import BucketState
from pststream.answers.contract import Logged, Thresholds, Values
from pststream.base import names
from pststream.kernels.answers.advance_rows import read_entries
from pststream.kernels.answers.columns import LIVE


def read_buffers(state: BucketState) -> Logged:
    """Return the entries of all live subscriptions, in the order of their keys and the best first, and their limits."""
    return _read_rows(state, np.flatnonzero(state.columns.status == LIVE))


def read_parts(state: BucketState, entries: int) -> Iterator[Logged]:
    """Yield what `read_buffers` returns in parts by ascending key, each of about so many entries.

    `build_bucket` makes the same state of them and of the subscriptions.
    """
    live = np.flatnonzero(state.columns.status == LIVE)
    parts = max(-(-int(state.columns.size[live].sum(dtype=np.int64)) // entries), 1)
    return (_read_rows(state, rows) for rows in np.array_split(live, parts))


def _read_rows(state: BucketState, live: np.ndarray) -> Logged:
    columns = state.columns
    rows = read_entries(columns, live)
    numbers = columns.limit[live]
    ts, keys = (
        np.where(numbers >= 0, columns.object_rows[numbers, part], none)
        for part, none in enumerate((names.NO_TIME, -1))
    )
    limits = Thresholds(columns.key[live], columns.threshold[live], ts, keys, np.zeros(len(live), np.bool_))
    return Logged(Values(columns.key[rows.row], rows.object, rows.ts, rows.value), limits)
