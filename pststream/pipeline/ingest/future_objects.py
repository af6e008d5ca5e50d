"""Reject objects whose time is too far ahead of the clock; their parsed fields stay, so that they can be retried."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.input.reject_reasons import REASONS

REASON = "future"


def split_future_objects(objects: pa.RecordBatch, latest: int) -> list[pa.RecordBatch]:
    """Split parsed objects (input/parse_objects.py) into those with a ts up to `latest` (microseconds) and the rest.

    The rest has the columns field, reason, detail and raw of a reject too; there is no second batch if none is later.
    """
    is_future = pc.cast(objects.column("ts"), pa.int64()).to_numpy() > latest
    if not np.any(is_future):
        return [objects]
    future = objects.filter(pa.array(is_future))
    reject = {"field": "ts", "reason": REASON, "detail": REASONS[REASON], "raw": future.column("ts").cast(pa.string())}
    for name, value in reject.items():
        future = future.append_column(name, pa.repeat(value, len(future)) if isinstance(value, str) else value)
    return [objects.filter(pa.array(~is_future)), future]
