"""Matching the objects of a micro-batch with all the segments of a worker."""

from dataclasses import dataclass

import numpy as np

from pststream.kernels.match import localize, match_segment, place_pairs
from pststream.matching.deletions import ended_pieces
from pststream.matching.objects import ObjectBatch
from pststream.matching.segments import Segment


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
    counts = np.zeros(batch.objects, np.int64)
    candidates = np.zeros(units, np.int64)
    matches = np.zeros(units, np.int64)
    parts = []
    for segment in segments:
        marks, pieces, ends = ended_pieces(segment, deleted_keys, deleted_ends)
        offsets, local, mask, unit = localize(
            batch.term_offsets, batch.terms, batch.units,
            segment.slots, segment.places, segment.bits, segment.levels_of_term,
        )  # fmt: skip
        parts.append(
            match_segment(
                batch.codes, batch.lon, batch.lat, batch.ts, offsets, local, mask, unit,
                segment.levels, segment.level_cells, segment.cells, segment.cell_keys, segment.key_term,
                segment.key_postings, segment.filter_offsets, segment.filters, segment.longest,
                segment.boxes, segment.posting_piece, segment.posting_rank, segment.records,
                segment.literal_offsets, segment.literals, segment.circles,
                marks, pieces, ends, after_key, len(segment.terms), candidates, matches, counts,
            )
        )  # fmt: skip
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    keys = np.empty(offsets[-1], np.int64)
    following = offsets[:-1].copy()
    for found_object, found_key in parts:
        place_pairs(found_object, found_key, following, keys)
    return Found(offsets, keys, candidates, matches)
