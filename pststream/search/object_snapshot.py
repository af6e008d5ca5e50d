"""Hold the segments of all stored objects at one moment, and resolve the times and windows of questions about them."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrays import distinct_values, make_read_only
from pststream.kernels.questions.build_segment import copy_texts, count_by_time, greatest_time, keys_at, measure_texts
from pststream.kernels.questions.scores import TextArrays
from pststream.search.object_segments import ObjectSegment
from pststream.search.term_weights import EQUAL_WEIGHTS, TermWeights
from pststream.storage.array_cache import Paths

WITHDRAWN_KEY = names.MAX_INT64
"""Key of a withdrawn object: after every key that counts."""

LAST_KEY = WITHDRAWN_KEY - 1
"""The last key that counts: with a time, the place after all objects of this time that are not withdrawn."""

_BUCKETS = 16_384
"""Parts of time in which objects are counted to find boundaries of count windows."""

_SORTED_OBJECTS = 1_000_000
"""A part of time with more objects is divided again before they are sorted."""


class ObjectSnapshot:
    """The segments of all data files of `objects`, in the order of their keys.

    sources       the data files of each segment; none: the weights of its words are not kept in the cache
    term_weights  the weights of words that are in force
    reported      the objects with the terms of reports (search/reported_terms.py), once they were asked for
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
        self.reported: ObjectSnapshot | None = None
        self._last_times: dict[int, int] = {}
        self._boundaries: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}

    def without(self, keys: np.ndarray) -> "ObjectSnapshot":
        """Return a snapshot in which the objects with these keys (int64[n], ascending) count for no question."""
        return ObjectSnapshot([_leave_out(segment, keys) for segment in self.segments], self.sources, self.term_weights)

    def choose(self, numbers: np.ndarray) -> "ObjectSnapshot":
        """Return a snapshot of some of the segments, by their positions (int64[n])."""
        sources = [self.sources[number] for number in numbers]
        return ObjectSnapshot([self.segments[number] for number in numbers], sources, self.term_weights)

    def text_arrays(self, number: int) -> TextArrays:
        """Return the arrays that score the texts of a segment, by its position."""
        return self.term_weights.of_segment(self.sources[number], self.segments[number])

    @cached_property
    def bounds(self) -> np.ndarray:
        """Least and greatest ts, least and greatest key of each segment: int64[segments, 4]."""
        return np.array([segment.bounds for segment in self.segments], np.int64).reshape(-1, 4)

    def last_time(self, up_to_key: int) -> int:
        """Return the greatest ts of objects up to a key, names.NO_TIME without such objects."""
        if up_to_key not in self._last_times:
            latest = names.NO_TIME
            for segment, (_, last, first_key, last_key) in zip(self.segments, self.bounds.tolist()):
                if last_key <= up_to_key:
                    latest = max(latest, last)
                elif first_key <= up_to_key and last > latest:
                    latest = int(greatest_time(segment.times, segment.keys, up_to_key, latest))
            self._last_times[up_to_key] = latest
        return self._last_times[up_to_key]

    def before_most_recent(self, counts: Sequence[int], up_to_ts: int, up_to_key: int = LAST_KEY) -> np.ndarray:
        """Return for each of `counts` (ts, key) after which exactly so many objects come, the most recent by (ts, key):
        int64[n,2]; names.NO_TIME, LAST_KEY if there are fewer.

        Only objects with ts <= up_to_ts and key <= up_to_key count. All counts are found in one pass over the objects.
        """
        known = self._boundaries.setdefault((up_to_ts, up_to_key), {})
        missing = distinct_values(np.array([count for count in counts if count not in known], np.int64))
        if len(missing):
            low, high = 0, -1
            if self.segments:
                low = self._first_time_of_most_recent(int(missing[-1]), up_to_ts, up_to_key)
                high = min(up_to_ts, int(self.bounds[:, 1].max()))
            boundaries = self._find_within(missing, low, high, up_to_key)
            known.update(zip(missing.tolist(), map(tuple, boundaries.tolist())))
        return np.array([known[count] for count in counts], np.int64).reshape(-1, 2)

    def _find_within(self, counts: np.ndarray, low: int, high: int, up_to_key: int) -> np.ndarray:
        """Return (ts, key) before the `count` most recent objects with low <= ts <= high: int64[n,2].

        counts: int64[n], ascending. Objects are counted by parts of the time. Those of the parts in which a boundary
        lies are sorted; a part with very many is divided again.
        """
        boundaries = np.tile((names.NO_TIME, LAST_KEY), (len(counts), 1))
        if low > high:
            return boundaries
        width = (high - low) // _BUCKETS + 1
        sizes = self.count_by_time(low, high, width, up_to_key)
        later = np.append(np.cumsum(sizes[::-1])[::-1], 0)  # objects in each part and those after it
        asked = np.flatnonzero(counts <= later[0])
        part = np.searchsorted(-later, -counts[asked], "right") - 1
        left = counts[asked] - later[part + 1]
        is_large = (sizes[part] > _SORTED_OBJECTS) & (width > 1)
        for one in distinct_values(part[is_large]).tolist():
            mine = is_large & (part == one)
            first = low + one * width
            boundaries[asked[mine]] = self._find_within(left[mine], first, min(high, first + width - 1), up_to_key)
        small, chosen = np.flatnonzero(~is_large), np.zeros(len(sizes), bool)
        chosen[part[small]] = True
        ts, key = self._sorted_objects(chosen, low, high, width, up_to_key)
        ends = np.cumsum(np.where(chosen, sizes, 0))  # of the objects of each part among the sorted ones
        place = ends[part[small]] - left[small]
        boundaries[asked[small]] = np.column_stack([ts[place], key[place] - 1])
        return boundaries

    def _sorted_objects(
        self, chosen: np.ndarray, low: int, high: int, width: int, up_to_key: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ts and key of the objects in chosen parts of time (bool[n]), ascending: int64[m] each."""
        times, keys, parts = [np.empty(0, np.int64)], [np.empty(0, np.int64)], np.flatnonzero(chosen)
        first, last = (low + parts[0] * width, min(high, low + (parts[-1] + 1) * width - 1)) if len(parts) else (0, -1)
        for one in self._at(first, last):
            rows = np.flatnonzero((one.times >= first) & (one.times <= last) & (one.keys <= up_to_key))
            rows = rows[chosen[(one.times[rows] - low) // width]]
            times.append(one.times[rows])
            keys.append(one.keys[rows])
        ts, key = np.concatenate(times), np.concatenate(keys)
        order = np.lexsort((key, ts))
        return ts[order], key[order]

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
            positions = np.flatnonzero(segment == number)
            parts.append((self.segments[number], row[positions], positions))
        for one, rows, positions in parts:
            measure_texts(one.id_offsets, rows, positions, lengths)
        offsets = np.append(0, np.cumsum(lengths))
        copied = np.empty(offsets[-1], np.uint8)
        for one, rows, positions in parts:
            copy_texts(one.id_offsets, one.ids, rows, positions, offsets, copied)
        return pa.LargeStringArray.from_buffers(len(row), pa.py_buffer(offsets), pa.py_buffer(copied))


def _leave_out(segment: ObjectSegment, keys: np.ndarray) -> ObjectSegment:
    """Give the objects with these keys a key that is above those of every window; the other arrays stay mapped."""
    first, last, first_key, last_key = segment.bounds.tolist()
    within = keys[np.searchsorted(keys, first_key) : np.searchsorted(keys, last_key, "right")]
    withdrawn = np.isin(segment.keys, within) if len(within) else np.zeros(0, bool)
    if not withdrawn.any():
        return segment
    changed = np.where(withdrawn, WITHDRAWN_KEY, segment.keys)
    changed, bounds = make_read_only((changed, np.array([first, last, first_key, WITHDRAWN_KEY], np.int64)))
    return segment._replace(keys=changed, bounds=bounds)
