"""Cut the window of a question into slices of a bounded number of stored objects, newest first."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot

_BUCKETS = 4_096


class WindowSlice(NamedTuple):
    """The objects with (ts, key) > (after_ts, after_key), ts <= to_ts and key <= to_key."""

    after_ts: int
    after_key: int
    to_ts: int
    to_key: int


def slice_window(snapshot: ObjectSnapshot, low: int, high: int, to_key: int, most: int) -> Iterator[WindowSlice]:
    """Yield slices of the objects with low <= ts <= high and key <= to_key, each with at most `most` objects.

    Together they are all of these objects; each object of a slice is newer, by (ts, key), than those of the next.
    """
    if low > high:
        return
    width = (high - low) // _BUCKETS + 1
    counts = snapshot.count_by_time(low, high, width, to_key).tolist()
    stop, objects = high, 0
    for bucket in reversed(range(len(counts))):
        first = low + bucket * width
        last = min(high, first + width - 1)
        if objects and objects + counts[bucket] > most:
            yield WindowSlice(last, LAST_KEY, stop, to_key)
            stop, objects = last, 0
        objects += counts[bucket]
        if objects > most:
            yield from _slice_bucket(snapshot, first, last, to_key, most)
            stop, objects = first - 1, 0
    if objects:
        yield WindowSlice(low - 1, LAST_KEY, stop, to_key)


def _slice_bucket(snapshot: ObjectSnapshot, low: int, high: int, to_key: int, most: int) -> Iterator[WindowSlice]:
    """Yield slices of a bucket with more than `most` objects: by time, or of one ts by key."""
    if low < high:
        yield from slice_window(snapshot, low, high, to_key, most)
        return
    keys = np.sort(snapshot.keys_at(low, to_key))
    for stop in range(len(keys), 0, -most):
        yield WindowSlice(low, int(keys[max(0, stop - most)]) - 1, low, int(keys[stop - 1]))
