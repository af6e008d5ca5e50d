"""Match a micro-batch of objects with all segments of one worker; return the subscription keys of each object."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pststream.base import names
from pststream.kernels.matching.match_segment import SearchCounts, append_lists, match_segment
from pststream.kernels.matching.verify import Deleted
from pststream.matching.deletions import NO_DELETIONS, Deletions, deleted_pieces, without_pieces
from pststream.matching.object_batch import ObjectBatch
from pststream.matching.segments import Segment

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


def match_objects(batch: ObjectBatch, probes: Sequence[SegmentProbe], units: int) -> MatchedPairs:
    """Find all pairs of the batch's objects and the subscriptions of the probes.

    Raises TooManyPairs if several objects have more than MAX_PAIRS together.
    """
    limit, total = MAX_PAIRS if batch.objects > 1 else sys.maxsize, 0
    counts = SearchCounts(np.zeros(units, np.int64), np.zeros(units, np.int64))
    searches = []
    for segment, deleted in probes:
        # Memory is taken when it is written, so generous room costs nothing.
        room = np.empty(min(limit - total, EXPECTED_PAIRS * batch.objects) + HIT_BUFFER, np.int64)
        always_valid = _is_always_valid(batch, segment, deleted)
        keys_of = match_segment(batch.arrays, segment, deleted, always_valid, counts, HIT_BUFFER, limit - total, room)
        searches.append(keys_of)
        total += len(keys_of[1])
        if total > limit:
            raise TooManyPairs
    return MatchedPairs(*_merge_lists(searches, batch.objects), counts.candidates, counts.matches)


def _is_always_valid(batch: ObjectBatch, segment: Segment, deleted: Deleted) -> bool:
    """Return whether neither validity nor deletions nor exact tests can decide a pair of the batch and the segment."""
    least_key, _, created, end = segment.bounds.tolist()
    ts = batch.arrays.ts
    within = not batch.objects or (created <= ts.min() and ts.max() < end)
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
