"""Match a micro-batch of objects with the segments of one worker: sorted objects, merged pairs, size of chunks."""

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pststream.base import names
from pststream.base.arrays import read_only
from pststream.kernels.matching.index_cells import sort_points
from pststream.kernels.matching.match_segment import Deleted, Objects, SearchCounts, append_lists, match_segment
from pststream.kernels.matching.postings import LIVE_LEVEL, LiveTerms, add_keys
from pststream.matching.segments import NO_DELETIONS, Deletions, Segment, SegmentCache, deleted_pieces, without_pieces
from pststream.matching.verified_clauses import join_phrases
from pststream.queries.text.phrases import PhraseTable
from pststream.storage.array_cache import Paths


def sort_objects(
    lon: np.ndarray, lat: np.ndarray, ts: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray, units: np.ndarray
) -> Objects:
    """Sort objects into Morton order.

    lon, lat             float64[n]            degrees
    ts                   int64[n]              microseconds
    term_offsets, terms  int64[n+1], int64[m]  distinct terms of each object
    units                int32[m]              unit that each (object, term) is matched for, -1: of another worker
    Returns these arrays in the order in which the objects came, the position of each object in Morton order (`order`
    int64[n]) and the Morton numbers (`codes` int64[n]).
    """
    lon, lat, ts, terms = map(read_only, (lon, lat, ts, terms))
    order, codes = sort_points(lon, lat)
    return Objects(order, codes, lon, lat, ts, term_offsets, terms, units)


HIT_BUFFER = 1 << 14
"""Maximum number of hits that are verified together; they take 192 KiB."""

EXPECTED_PAIRS = 256
"""Pairs of an object for which a search makes room at first."""

NO_PIECES = np.empty(0, np.int64)

MAX_PAIRS = 1 << 24
"""Maximum number of pairs of one search; they take about half a gigabyte."""


class TooManyPairs(Exception):
    """The objects have more pairs than one search may find."""


class SegmentProbe(NamedTuple):
    """A segment, and the deletions that it does not contain."""

    segment: Segment
    deleted: Deleted


def make_probe(
    segment: Segment,
    deletions: Deletions = NO_DELETIONS,
    after_key: int = names.MIN_INT64,
    others: np.ndarray = NO_PIECES,
) -> SegmentProbe:
    """Prepare a segment for matching; subscriptions with keys up to `after_key`, and the pieces `others`, do not match.

    after_key  names.MIN_INT64 leaves out none: keys of subscriptions with memory are negative in segments
    others     int64[n], ascending
    """
    deleted = deleted_pieces(segment, *deletions, after_key)
    return SegmentProbe(segment, without_pieces(segment, deleted, others) if len(others) else deleted)


@dataclass(frozen=True)
class MatchedPairs:
    """Pairs grouped by object, in the order of the batch, and the work of the search.

    offsets int64[objects+1]: slice of `keys` of each object; keys int64[pairs]: subscription keys;
    candidates, matches int64[units]: postings checked and pairs found for each unit of the plan.
    """

    offsets: np.ndarray
    keys: np.ndarray
    candidates: np.ndarray
    matches: np.ndarray


def match_objects(batch: Objects, probes: Sequence[SegmentProbe], units: int) -> MatchedPairs:
    """Find all pairs of the batch's objects and the subscriptions of the probes.

    Raises TooManyPairs if several objects have more than MAX_PAIRS together.
    """
    objects, total = len(batch.order), 0
    limit = MAX_PAIRS if objects > 1 else sys.maxsize
    counts = SearchCounts(np.zeros(units, np.int64), np.zeros(units, np.int64))
    searches = []
    for segment, deleted in probes:
        # Memory is taken when it is written, so generous room costs nothing.
        room = np.empty(min(limit - total, EXPECTED_PAIRS * objects) + HIT_BUFFER, np.int64)
        always_valid = _is_always_valid(batch, segment, deleted)
        keys_of = match_segment(batch, segment, deleted, always_valid, counts, HIT_BUFFER, limit - total, room)
        searches.append(keys_of)
        total += len(keys_of[1])
        if total > limit:
            raise TooManyPairs
    return MatchedPairs(*_merge_lists(searches, objects), counts.candidates, counts.matches)


def _is_always_valid(batch: Objects, segment: Segment, deleted: Deleted) -> bool:
    """Return whether neither validity nor deletions nor exact tests can decide a pair of the batch and the segment."""
    least_key, _, created, end = segment.bounds.tolist()
    within = not len(batch.ts) or (created <= batch.ts.min() and batch.ts.max() < end)
    return bool(within and not len(segment.exact_tests) and not len(deleted.pieces) and least_key > deleted.after_key)


def merge_pairs(searches: Sequence[MatchedPairs]) -> tuple[np.ndarray, np.ndarray]:
    """Merge several searches for the same objects into offsets and keys, as in `MatchedPairs`."""
    return _merge_lists([(pairs.offsets, pairs.keys) for pairs in searches], len(searches[0].offsets) - 1)


def _merge_lists(searches: Sequence[tuple[np.ndarray, np.ndarray]], objects: int) -> tuple[np.ndarray, np.ndarray]:
    """Merge the offsets and keys of several searches for the same objects."""
    if len(searches) == 1:
        return searches[0]
    offsets = np.zeros(objects + 1, np.int64)
    for lists, _ in searches:
        offsets += lists
    merged, following = np.empty(offsets[-1], np.int64), offsets[:-1].copy()
    for lists, keys in searches:
        append_lists(lists, keys, following, merged)
    return offsets, merged


def has_every_object(segment: Segment) -> bool:
    """Return whether a segment posts the term of every object, as it has a subscription without keywords."""
    position = int(np.searchsorted(segment.terms, names.EVERY_OBJECT))
    return position < len(segment.terms) and int(segment.terms[position]) == names.EVERY_OBJECT


def add_every_object(offsets: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the terms of objects with the term of every object as the last of each.

    A subscription without keywords has one clause, of the term `names.EVERY_OBJECT`, which is not the id of any word
    and is not stored in `objects`. Tasks add it to the objects if a segment has a posting of it.

    offsets, terms   int64[n+1], int64[m]   distinct terms of each object; likewise what is returned
    """
    is_stored = terms == names.EVERY_OBJECT  # as the id of a word
    if is_stored.any():
        offsets, terms = np.append(0, np.cumsum(~is_stored))[offsets], terms[~is_stored]
    added = offsets + np.arange(len(offsets))
    wider = np.empty(len(terms) + len(offsets) - 1, np.int64)
    is_given = np.ones(len(wider), bool)
    is_given[added[1:] - 1] = False
    wider[is_given], wider[~is_given] = terms, names.EVERY_OBJECT
    return added, wider


MAX_OBJECTS = 1 << 17


class ChunkSize:
    """The number of objects to match at once, so that their pairs fit into memory.

    It is MAX_OBJECTS at first, a quarter after too many pairs, and double after few.
    """

    def __init__(self) -> None:
        self.objects = MAX_OBJECTS

    def shrink(self, objects: int) -> None:
        """Shrink after a chunk of `objects` (more than one) objects that had more than MAX_PAIRS pairs."""
        self.objects = max(objects // 4, 1)

    def record(self, objects: int, pairs: int) -> None:
        """Record the pairs of a chunk of `objects` objects, and grow if a full chunk had few."""
        if objects == self.objects < MAX_OBJECTS and pairs < MAX_PAIRS // 4:
            self.objects *= 2


BITS_PER_KEY = 8
"""Bits for each key, at least. With 16, routing takes 15% longer, for more words lie outside of the caches."""


class LiveTermFilter:
    """A Bloom filter of the (index cell, term) keys of an index's segments.

    Routing tasks drop the other terms of objects, and an object without a live term is not sent to any worker.

    The filter grows with each new segment. Keys of removed segments remain, which sometimes sends an object to a worker
    without a match. The filter is built again when it has as many such keys as current ones, or when it is full.
    """

    def __init__(self) -> None:
        self._keys_of: dict[Paths, int] = {}
        self._every_object: set[Paths] = set()
        self._phrases: list[PhraseTable] = []
        self._added = 0
        self._levels: set[int] = set()
        self._words = np.zeros(1 << 10, np.uint64)
        self._lock = threading.Lock()

    def update(self, wanted: frozenset[Paths], cache: SegmentCache) -> None:
        """Add the keys of the segments that are new among `wanted`; several threads may call it."""
        # Threads that start together build different segments here, before one of them adds the keys.
        cache.segments(wanted - self._keys_of.keys())
        with self._lock:
            self._add(wanted, cache)

    def _add(self, wanted: frozenset[Paths], cache: SegmentCache) -> None:
        segments = cache.segments(wanted - self._keys_of.keys())
        keys_of = {paths: count for paths, count in self._keys_of.items() if paths in wanted}
        keys_of |= {paths: segment.posting_keys for paths, segment in segments.items()}
        added = self._added + sum(segment.posting_keys for segment in segments.values())
        needed = sum(keys_of.values())
        filter_words, levels, phrases = self._words, self._levels, self._phrases
        if added > 2 * needed or BITS_PER_KEY * added > 64 * len(filter_words):
            segments = cache.segments(wanted)
            added, levels, phrases = needed, set(), []
            words = BITS_PER_KEY * needed // 64
            filter_words = np.zeros(1 << max(10, int(words + words // 4).bit_length()), np.uint64)
        for segment in segments.values():
            add_keys(filter_words, segment.cells, segment.cell_buckets, segment.buckets, segment.keys, segment.terms)
            levels = levels | {min(int(level), LIVE_LEVEL) for level in segment.levels}
        phrases = join_phrases(phrases, segments.values())
        every = {paths for paths in self._every_object if paths in wanted}
        every |= {paths for paths, segment in segments.items() if has_every_object(segment)}
        # Nothing counts as added before it is: reading a segment may fail, and the process goes on with a later batch.
        self._keys_of, self._added, self._words, self._levels = keys_of, added, filter_words, levels
        self._every_object, self._phrases = every, phrases

    @property
    def has_every_object(self) -> bool:
        """Whether a subscription without keywords is live."""
        return bool(self._every_object)

    @property
    def phrases(self) -> list[PhraseTable]:
        """The phrases of live subscriptions, and some of ended ones."""
        return self._phrases

    def arrays(self) -> LiveTerms:
        """Return the filter as kernels take it."""
        return LiveTerms(self._words, np.array(sorted(self._levels, reverse=True), np.int64))
