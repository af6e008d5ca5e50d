"""Read the buffers and the limits of a bucket's state: what a snapshot of the bucket has."""

import numpy as np

from pststream.answers.bucket_file import BucketState
from pststream.answers.contract import NO_TIME, Thresholds, Values
from pststream.kernels.answers.advance_rows import read_entries
from pststream.kernels.answers.columns import LIVE


def read_buffers(state: BucketState) -> tuple[Values, Thresholds]:
    """Return the entries of all live subscriptions, in the order of their keys and the best first, and their limits.

    `build_bucket` makes the same state of them and of the subscriptions.
    """
    columns = state.columns
    live = np.flatnonzero(columns.status == LIVE)
    rows = read_entries(columns, live)
    numbers = columns.limit[live]
    ts, keys = (
        np.where(numbers >= 0, columns.object_rows[numbers, part], none) for part, none in enumerate((NO_TIME, -1))
    )
    limits = Thresholds(columns.key[live], columns.threshold[live], ts, keys, np.zeros(len(live), np.bool_))
    return Values(columns.key[rows.row], rows.object, rows.ts, rows.value), limits
