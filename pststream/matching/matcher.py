"""Matching the objects of a micro-batch with all the segments of a worker."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pststream.kernels.match import LocalObjects, Tally, localize, match_segment, place_pairs
from pststream.matching.deletions import deleted_pieces
from pststream.matching.objects import ObjectBatch
from pststream.matching.segments import Segment

HITS = 1 << 14
"""Hits that wait to be verified together: 256 KiB of them."""


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


def match_objects(
    batch: ObjectBatch,
    segments: list[Segment],
    deleted_keys: np.ndarray,
    deleted_ends: np.ndarray,
    units: int,
    after_key: int = -1,
) -> Found:
    """All pairs of the batch's objects and the segments' subscriptions with a key above `after_key`."""
    tally = Tally(np.zeros(units, np.int64), np.zeros(units, np.int64), np.zeros(batch.objects, np.int64))
    parts = []
    for segment in segments:
        terms = localize(
            batch.term_offsets, batch.terms, batch.units,
            segment.slots, segment.places, segment.bits, segment.levels_of_term,
        )  # fmt: skip
        objects = LocalObjects(batch.codes, batch.lon, batch.lat, batch.ts, *terms)
        deleted = deleted_pieces(segment, deleted_keys, deleted_ends, after_key)
        parts.append(match_segment(objects, segment, deleted, tally, max(HITS, segment.longest)))
    offsets = np.concatenate([[0], np.cumsum(tally.counts)]).astype(np.int64)
    keys = np.empty(offsets[-1], np.int64)
    following = offsets[:-1].copy()
    for found_object, found_key in parts:
        place_pairs(found_object, found_key, following, keys)
    return Found(offsets, keys, tally.candidates, tally.matches)


def pairs_of(found: Sequence[Found]) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and keys, as `Found` has them, of all that several searches have found for the same objects."""
    if len(found) == 1:
        return found[0].offsets, found[0].keys
    owner = np.concatenate([np.repeat(np.arange(len(part.offsets) - 1), np.diff(part.offsets)) for part in found])
    keys = np.concatenate([part.keys for part in found])
    return np.sum([part.offsets for part in found], axis=0), keys[np.argsort(owner, kind="stable")]
