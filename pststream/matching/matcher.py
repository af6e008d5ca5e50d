"""Matching the objects of a micro-batch with all the segments of a worker."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pststream.kernels.matching.match_segment import LocalObjects, MatchCounts, localize, match_segment, place_pairs
from pststream.kernels.matching.verify import Deleted
from pststream.matching.deletions import NO_DELETIONS, Deletions, deleted_pieces
from pststream.matching.object_batch import ObjectBatch
from pststream.matching.segments import Segment

HITS = 1 << 14
"""Hits that wait to be verified together: 256 KiB of them."""


MOST_PAIRS = 1 << 24
"""Pairs of one search: about half a gigabyte while they are found."""


class TooManyPairs(Exception):
    """The objects have more pairs than were to be found at once."""


class Probe(NamedTuple):
    """What objects are matched with: a segment, the deletions that it does not know, how many hits may wait."""

    segment: Segment
    deleted: Deleted
    room: int


def probe_of(segment: Segment, deletions: Deletions = NO_DELETIONS, after_key: int = -1) -> Probe:
    """A segment to be matched with, but for subscriptions with keys up to `after_key`."""
    room = max(HITS, int(segment.longest[0]))
    return Probe(segment, deleted_pieces(segment, *deletions, after_key), room)


@dataclass(frozen=True)
class Found:
    """Pairs grouped by object, in the order of the batch, and what it took to find them.

    offsets int64[objects+1]: slice of `keys` of each object; keys int64[pairs]: subscription keys;
    candidates, matches int64[units]: postings checked and pairs found for each unit of the plan.
    """

    offsets: np.ndarray
    keys: np.ndarray
    candidates: np.ndarray
    matches: np.ndarray


def match_objects(batch: ObjectBatch, probes: Sequence[Probe], units: int) -> Found:
    """All pairs of the batch's objects and the probes' subscriptions.

    Raises TooManyPairs if several objects have more than MOST_PAIRS together.
    """
    most, pairs = MOST_PAIRS if batch.objects > 1 else sys.maxsize, 0
    counts = MatchCounts(np.zeros(units, np.int64), np.zeros(units, np.int64), np.zeros(batch.objects, np.int64))
    parts = []
    for segment, deleted, room in probes:
        terms = localize(
            batch.term_offsets, batch.terms, batch.units,
            segment.slots, segment.places, segment.bits, segment.levels_of_term,
        )  # fmt: skip
        objects = LocalObjects(batch.codes, batch.lon, batch.lat, batch.ts, *terms)
        parts.append(match_segment(objects, segment, deleted, counts, room, most - pairs))
        pairs += len(parts[-1][0])
        if pairs > most:
            raise TooManyPairs
    offsets = np.concatenate([[0], np.cumsum(counts.pairs)]).astype(np.int64)
    keys = np.empty(offsets[-1], np.int64)
    following = offsets[:-1].copy()
    for found_object, found_key in parts:
        place_pairs(found_object, found_key, following, keys)
    return Found(offsets, keys, counts.candidates, counts.matches)


def pairs_of(found: Sequence[Found]) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and keys, as `Found` has them, of all that several searches have found for the same objects."""
    if len(found) == 1:
        return found[0].offsets, found[0].keys
    owner = np.concatenate([np.repeat(np.arange(len(part.offsets) - 1), np.diff(part.offsets)) for part in found])
    keys = np.concatenate([part.keys for part in found])
    return np.sum([part.offsets for part in found], axis=0), keys[np.argsort(owner, kind="stable")]
