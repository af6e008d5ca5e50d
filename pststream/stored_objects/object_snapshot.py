"""Hold the segments of all stored objects at one moment, and resolve the times and windows of questions about them."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from pststream.array_cache.array_cache import Paths
from pststream.kernels.questions.gather_texts import copy_texts, measure_texts
from pststream.kernels.questions.text_weights import TextArrays
from pststream.kernels.questions.windows import count_by_time, greatest_time, keys_at
from pststream.stored_objects.object_segments import ObjectSegment
from pststream.stored_objects.term_weights import EQUAL_WEIGHTS, TermWeights

EARLIEST = -(2**63)
WITHDRAWN_KEY = 2**63 - 1
"""Key of a withdrawn object: after every key that counts."""

LAST_KEY = WITHDRAWN_KEY - 1

_BUCKETS = 4_096


class ObjectSnapshot:
    """The segments of all data files of `objects`, in the order of their keys.

    sources       the data files of each segment; none: the weights of its words are not kept in the cache
    term_weights  the weights of words that are in force
    """

    def __init__(
        self,
        segments: Sequence[ObjectSegment],
        sources: Sequence[Paths] = (),
        term_weights: TermWeights = EQUAL_WEIGHTS,
    ) -> None:
        named = zip(segments, sources or [()] * len(segments), strict=True)
        kept = [(segment, paths) for segment, paths in named if len(segment.keys)]
        self.segments, self.sources = [segment for segment, _ in kept], [paths for _, paths in kept]
        self.term_weights = term_weights
        self._last_times: dict[int, int] = {}
        self._boundaries: dict[tuple[int, int, int], tuple[int, int]] = {}

    def without(self, keys: np.ndarray) -> "ObjectSnapshot":
        """Return a snapshot in which the objects with these keys (int64[n], ascending) count for no question."""
        return ObjectSnapshot([_leave_out(segment, keys) for segment in self.segments], self.sources, self.term_weights)

    def text_arrays(self, number: int) -> TextArrays:
        """Return the arrays that score the texts of a segment, by its position."""
        return self.term_weights.of_segment(self.sources[number], self.segments[number])

    @cached_property
    def bounds(self) -> np.ndarray:
        """Least and greatest ts, least and greatest key of each segment: int64[segments, 4]."""
        return np.array([segment.bounds for segment in self.segments], np.int64).reshape(-1, 4)

    def last_time(self, up_to_key: int = LAST_KEY) -> int:
        """Return the greatest ts of objects up to a key, EARLIEST without such objects."""
        if up_to_key not in self._last_times:
            latest = EARLIEST
            for segment, (_, last, first_key, last_key) in zip(self.segments, self.bounds.tolist()):
                if last_key <= up_to_key:
                    latest = max(latest, last)
                elif first_key <= up_to_key and last > latest:
                    latest = int(greatest_time(segment.times, segment.keys, up_to_key, latest))
            self._last_times[up_to_key] = latest
        return self._last_times[up_to_key]

    def before_most_recent(self, count: int, up_to_ts: int, up_to_key: int = LAST_KEY) -> tuple[int, int]:
        """Return (ts, key) after which exactly the `count` most recent objects by (ts, key) come, or all if fewer.

        Only objects with ts <= up_to_ts and key <= up_to_key count.
        """
        asked = count, up_to_ts, up_to_key
        if asked not in self._boundaries:
            self._boundaries[asked] = self._find_boundary(count, up_to_ts, up_to_key)
        return self._boundaries[asked]

    def _find_boundary(self, count: int, up_to_ts: int, up_to_key: int) -> tuple[int, int]:
        if not self.segments:
            return EARLIEST, LAST_KEY
        low = self._first_time_of_most_recent(count, up_to_ts, up_to_key)
        high = min(up_to_ts, int(self.bounds[:, 1].max()))
        # Narrow [low, high] to the ts of the count-th object; `count` is what is left of it below `high`.
        while low < high:
            width = (high - low) // _BUCKETS + 1
            counts = self.count_by_time(low, high, width, up_to_key)
            later = np.cumsum(counts[::-1])
            place = int(np.searchsorted(later, count))
            if place == len(counts):
                return EARLIEST, LAST_KEY
            bucket = len(counts) - 1 - place
            count -= int(later[place - 1]) if place else 0
            low, high = low + bucket * width, min(high, low + (bucket + 1) * width - 1)
        keys = self.keys_at(low, up_to_key)
        if low > high or len(keys) < count:
            return EARLIEST, LAST_KEY
        return low, int(np.partition(keys, len(keys) - count)[len(keys) - count]) - 1

    def _first_time_of_most_recent(self, count: int, up_to_ts: int, up_to_key: int) -> int:
        """Return a ts from which on at least `count` objects count, or the first of all: by the newest segments."""
        order = np.argsort(-self.bounds[:, 0], kind="stable")
        bounds, sizes = self.bounds[order], np.array([len(self.segments[number].keys) for number in order.tolist()])
        counted = np.cumsum(sizes * ((bounds[:, 1] <= up_to_ts) & (bounds[:, 3] <= up_to_key)))
        place = min(int(np.searchsorted(counted, count)), len(bounds) - 1)
        return int(bounds[place, 0])

    def count_by_time(self, low: int, high: int, width: int, up_to_key: int) -> np.ndarray:
        """Count the objects with low <= ts <= high and key <= up_to_key, by (ts - low) // width: int64[]."""
        counts = np.zeros((high - low) // width + 1, np.int64)
        for segment in self._at(low, high):
            count_by_time(segment.times, segment.keys, up_to_key, low, high, width, counts)
        return counts

    def keys_at(self, ts: int, up_to_key: int) -> np.ndarray:
        """Return the keys of the objects with this ts and key <= up_to_key: int64[]."""
        parts = [keys_at(one.times, one.keys, up_to_key, ts) for one in self._at(ts, ts)]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _at(self, low: int, high: int) -> list[ObjectSegment]:
        """Return the segments that may have objects with ts in [low, high]."""
        return [one for one, (first, last, _, _) in zip(self.segments, self.bounds) if first <= high and last >= low]

    def object_ids(self, segment: np.ndarray, row: np.ndarray) -> pa.Array:
        """Return the object_id of each row of a segment: large_string[n]; `segment`, `row` int64[n]."""
        lengths = np.empty(len(row), np.int64)
        parts = []
        for number in np.flatnonzero(np.bincount(segment)).tolist():
            places = np.flatnonzero(segment == number)
            parts.append((self.segments[number], row[places], places))
        for one, rows, places in parts:
            measure_texts(one.id_offsets, rows, places, lengths)
        offsets = np.append(0, np.cumsum(lengths))
        copied = np.empty(offsets[-1], np.uint8)
        for one, rows, places in parts:
            copy_texts(one.id_offsets, one.ids, rows, places, offsets, copied)
        return pa.LargeStringArray.from_buffers(len(row), pa.py_buffer(offsets), pa.py_buffer(copied))


def _leave_out(segment: ObjectSegment, keys: np.ndarray) -> ObjectSegment:
    """Give the objects with these keys a key that is above those of every window; the other arrays stay mapped."""
    first, last, first_key, last_key = segment.bounds.tolist()
    within = keys[np.searchsorted(keys, first_key) : np.searchsorted(keys, last_key, "right")]
    withdrawn = np.isin(segment.keys, within) if len(within) else np.zeros(0, bool)
    if not withdrawn.any():
        return segment
    changed = np.where(withdrawn, WITHDRAWN_KEY, segment.keys)
    bounds = np.array([first, last, first_key, WITHDRAWN_KEY], np.int64)
    for array in (changed, bounds):
        array.setflags(write=False)
    return segment._replace(keys=changed, bounds=bounds)
