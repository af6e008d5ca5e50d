"""Match a micro-batch of objects with all segments of one worker; return the subscription keys of each object."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pststream.kernels.matching.match_segment import LocalObjects, SearchCounts, localize, match_segment, place_pairs
from pststream.kernels.matching.verify import Deleted
from pststream.matching.deletions import NO_DELETIONS, Deletions, deleted_pieces
from pststream.matching.object_batch import ObjectBatch
from pststream.matching.segments import Segment

HIT_BUFFER = 1 << 14
"""Number of hits that are verified together; they take 256 KiB."""


MAX_PAIRS = 1 << 24
"""Maximum number of pairs of one search; they take about half a gigabyte."""


class TooManyPairs(Exception):
    """The objects have more pairs than one search may find."""


class SegmentProbe(NamedTuple):
    """A segment, the deletions that it does not contain, and the size of the hit buffer for matching it."""

    segment: Segment
    deleted: Deleted
    hit_buffer: int


def make_probe(segment: Segment, deletions: Deletions = NO_DELETIONS, after_key: int = -1) -> SegmentProbe:
    """Prepare a segment for matching; subscriptions with keys up to `after_key` do not match."""
    hit_buffer = max(HIT_BUFFER, int(segment.longest[0]))
    return SegmentProbe(segment, deleted_pieces(segment, *deletions, after_key), hit_buffer)


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
    counts = SearchCounts(np.zeros(units, np.int64), np.zeros(units, np.int64), np.zeros(batch.objects, np.int64))
    searches = []
    for segment, deleted, hit_buffer in probes:
        terms = localize(
            batch.term_offsets, batch.terms, batch.units,
            segment.slots, segment.places, segment.bits, segment.levels_of_term,
        )  # fmt: skip
        objects = LocalObjects(batch.codes, batch.lon, batch.lat, batch.ts, *terms)
        searches.append(match_segment(objects, segment, deleted, counts, hit_buffer, limit - total))
        total += len(searches[-1][0])
        if total > limit:
            raise TooManyPairs
    offsets = np.concatenate([[0], np.cumsum(counts.pairs)]).astype(np.int64)
    keys = np.empty(offsets[-1], np.int64)
    following = offsets[:-1].copy()
    for pair_object, pair_key in searches:
        place_pairs(pair_object, pair_key, following, keys)
    return MatchedPairs(offsets, keys, counts.candidates, counts.matches)


def merge_pairs(searches: Sequence[MatchedPairs]) -> tuple[np.ndarray, np.ndarray]:
    """Merge several searches for the same objects into offsets and keys, as in `MatchedPairs`."""
    if len(searches) == 1:
        return searches[0].offsets, searches[0].keys
    owner = np.concatenate([np.repeat(np.arange(len(pairs.offsets) - 1), np.diff(pairs.offsets)) for pairs in searches])
    keys = np.concatenate([pairs.keys for pairs in searches])
    return np.sum([pairs.offsets for pairs in searches], axis=0), keys[np.argsort(owner, kind="stable")]
