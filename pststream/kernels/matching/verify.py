"""Verify candidate postings near an object: test clauses (CNF), box, shape and validity; write the matching pairs.

`match_segment` calls `verify` whenever its buffer of hits is full, and at the end.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import inlined, kernel
from pststream.kernels.matching.index_cells import fine_x, fine_y
from pststream.kernels.matching.shapes.contains_point import contains_point
from pststream.kernels.search import find


class Hits(NamedTuple):
    """Postings whose box, in steps of 9 mm, contains an object's point; the hits of one object are adjacent.

    object, unit int32[hits]; posting int64[hits].
    """

    object: np.ndarray
    unit: np.ndarray
    posting: np.ndarray


class Deleted(NamedTuple):
    """Pieces that deletions end: marks uint64[pieces/64], a bit per piece; pieces int64[d], ascending; ends int64[d].

    Only subscriptions with a key above `after_key` match.
    """

    marks: np.ndarray
    pieces: np.ndarray
    ends: np.ndarray
    after_key: int


@kernel
def mark_bits(pieces, count):
    """Return one bit for each of `count` pieces (uint64 words), set for the pieces listed."""
    marks = np.zeros((count >> 6) + 1, np.uint64)
    for piece in pieces:
        marks[piece >> 6] |= np.uint64(1) << np.uint64(piece & 63)
    return marks


@kernel
def _clauses_hold(literals, start, stop, rank, last_object, i):
    """Return whether object i has no earlier term of the first clause, and at least one term of every other clause.

    The posting stands for term number `rank` of the first clause, so each pair is found under one posting only.
    Literals of a piece: size of the first clause, its terms, size of the next, its terms ... Object i has a term if the
    term's entry in `last_object` is `i`.
    """
    first = start + 1
    for literal in range(first, first + rank):
        if last_object[literals[literal]] == i:
            return False
    clause = first + literals[start]
    while clause < stop:
        size = literals[clause]
        satisfied = False
        for literal in range(clause + 1, clause + 1 + size):
            if last_object[literals[literal]] == i:
                satisfied = True
                break
        if not satisfied:
            return False
        clause += 1 + size
    return True


@inlined
def _in_box(posting, piece, x, y, lon, lat, fine_boxes, boxes):
    """Test exactly whether the box contains the point; degrees are read only if the point is in the step of an edge."""
    inner = fine_boxes[posting, 0] < x and x < fine_boxes[posting, 2]
    inner = inner and fine_boxes[posting, 1] < y and y < fine_boxes[posting, 3]
    return inner or (
        boxes[piece, 0] <= lon and lon <= boxes[piece, 2] and boxes[piece, 1] <= lat and lat <= boxes[piece, 3]
    )


@kernel
def _satisfied(hits, waiting, objects, segment, last_object):
    """Keep the hits whose box and clauses hold, and replace the posting by its piece; return their number."""
    hit_object, hit_unit, hit_posting = hits
    _, lon, lat, _, offsets, term, _, _, _ = objects
    fine_boxes, boxes = segment.fine_boxes, segment.boxes
    posting_piece, posting_rank = segment.posting_piece, segment.posting_rank
    literal_offsets, literals = segment.literal_offsets, segment.literals
    kept, current = 0, -1
    for h in range(waiting):
        i, posting = hit_object[h], hit_posting[h]
        if i != current:
            # Mark the terms of the next object.
            current = i
            x, y = fine_x(lon[i]), fine_y(lat[i])
            for j in range(offsets[i], offsets[i + 1]):
                last_object[term[j]] = i
        piece, rank = posting_piece[posting], posting_rank[posting]
        if rank >= 0 and not _clauses_hold(
            literals, literal_offsets[piece], literal_offsets[piece + 1], rank, last_object, i
        ):
            continue
        if not _in_box(posting, piece, x, y, lon[i], lat[i], fine_boxes, boxes):
            continue
        hit_object[kept], hit_unit[kept], hit_posting[kept] = i, hit_unit[h], piece
        kept += 1
    return kept


@kernel
def verify(hits, waiting, objects, segment, deleted, counts, last_object, pair_object, pair_key):
    """Write the pairs among the first `waiting` hits to pair_object int32[] and pair_key int64[]; return their number.

    `last_object` int32[terms of the segment] is, for each term, the last verified object that has it; -1 before.
    """
    # Test boxes and clauses first: they are cheap, and most hits fail there.
    waiting = _satisfied(hits, waiting, objects, segment, last_object)
    # Test validity in a separate loop, so that the processor fetches many of the scattered records at a time.
    hit_object, hit_unit, hit_piece = hits
    lon, lat, ts = objects.lon, objects.lat, objects.ts
    records, codes = segment.records, segment.shape_codes
    shape_offsets, shape_numbers = segment.shape_offsets, segment.shape_numbers
    marks, pieces, ends, after_key = deleted
    _, matches, object_pairs = counts
    pairs = 0
    for h in range(waiting):
        i, piece = hit_object[h], hit_piece[h]
        key, created, end, test = records[piece, 0], records[piece, 1], records[piece, 2], records[piece, 3]
        if (marks[piece >> 6] >> np.uint64(piece & 63)) & np.uint64(1):
            end = min(end, ends[find(pieces, 0, len(pieces), piece)])
        ok = (created <= ts[i]) & (ts[i] < end) & (key > after_key)
        # The exact test of the shape, where the box does not decide.
        if test >= 0 and ok:
            ok = contains_point(
                codes[test], shape_numbers, shape_offsets[test], shape_offsets[test + 1], lon[i], lat[i]
            )
        # Write every pair, but advance only past a match: there is no branch to mispredict.
        pair_object[pairs], pair_key[pairs] = i, key
        pairs += ok
        matches[hit_unit[h]] += ok
        object_pairs[i] += ok
    return pairs
