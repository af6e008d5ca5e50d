"""Sorted rows of a partition, group by group."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def whole_partition(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """All rows of a partition in one batch; None if there are none. For slim rows: it holds them in memory."""
    held = [batch for batch in batches if batch.num_rows]
    return pa.concat_batches(held) if held else None


def group_starts(ids: pa.Array) -> np.ndarray:
    """Where each run of equal values begins, and the end: int64[groups+1]."""
    changes = pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.flatnonzero(changes) + 1, [len(ids)]]).astype(np.int64)
