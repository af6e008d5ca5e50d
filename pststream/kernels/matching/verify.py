"""The exact test of the postings that a walk through a segment found near: arrays in, pairs out."""

import math
from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import inlined, kernel
from pststream.kernels.matching.index_cells import fine_x, fine_y
from pststream.kernels.search import find

EARTH_RADIUS_M = 6_371_008.8


class Hits(NamedTuple):
    """Postings whose box holds an object's point, but for 9 mm; the hits of an object stand together.

    object, unit int32[room]; posting int64[room].
    """

    object: np.ndarray
    unit: np.ndarray
    posting: np.ndarray


class Deleted(NamedTuple):
    """Pieces that deletions end: marks uint64[pieces/64], a bit each; pieces int64[d], ascending; ends int64[d].

    Only subscriptions with a key above `after_key` count.
    """

    marks: np.ndarray
    pieces: np.ndarray
    ends: np.ndarray
    after_key: int


@kernel
def mark_bits(pieces, count):
    """One bit for each of `count` pieces, set for those listed."""
    marks = np.zeros((count >> 6) + 1, np.uint64)
    for piece in pieces:
        marks[piece >> 6] |= np.uint64(1) << np.uint64(piece & 63)
    return marks


@kernel
def _in_circle(circle, lon, lat):
    """Great-circle distance by the haversine formula, edge included."""
    lon1, lat1 = math.radians(circle[0]), math.radians(circle[1])
    lon2, lat2 = math.radians(lon), math.radians(lat)
    a = math.sin((lat2 - lat1) / 2.0) ** 2
    a += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2.0) ** 2
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a))) <= circle[2]


@kernel
def _clauses_hold(literals, start, stop, rank, stamp, at):
    """Whether the posting's term is the first of its clause that the object has, and every other clause has a term.

    Literals of a piece: size of the first clause, its terms, size of the next, its terms ... A stamp equal to `at`
    marks the terms of the object.
    """
    first = start + 1
    for term_at in range(first, first + rank):
        if stamp[literals[term_at]] == at:
            return False
    clause = first + literals[start]
    while clause < stop:
        size = literals[clause]
        held = False
        for term_at in range(clause + 1, clause + 1 + size):
            if stamp[literals[term_at]] == at:
                held = True
                break
        if not held:
            return False
        clause += 1 + size
    return True


@inlined
def _in_box(posting, piece, x, y, lon, lat, fine_boxes, boxes):
    """The exact test; only a point in the same step as an edge needs the edge in degrees."""
    inner = fine_boxes[posting, 0] < x and x < fine_boxes[posting, 2]
    inner = inner and fine_boxes[posting, 1] < y and y < fine_boxes[posting, 3]
    return inner or (
        boxes[piece, 0] <= lon and lon <= boxes[piece, 2] and boxes[piece, 1] <= lat and lat <= boxes[piece, 3]
    )


@kernel
def _satisfied(hits, waiting, objects, segment, stamp):
    """Keep the hits whose box and clauses hold, with the piece in place of the posting; returns how many."""
    hit_object, hit_unit, hit_posting = hits
    _, lon, lat, _, offsets, local, _, _, _ = objects
    fine_boxes, boxes = segment.fine_boxes, segment.boxes
    posting_piece, posting_rank = segment.posting_piece, segment.posting_rank
    literal_offsets, literals = segment.literal_offsets, segment.literals
    kept, last = 0, -1
    for h in range(waiting):
        at, posting = hit_object[h], hit_posting[h]
        if at != last:
            last = at
            x, y = fine_x(lon[at]), fine_y(lat[at])
            for s in range(offsets[at], offsets[at + 1]):
                stamp[local[s]] = at
        piece, rank = posting_piece[posting], posting_rank[posting]
        if rank >= 0 and not _clauses_hold(
            literals, literal_offsets[piece], literal_offsets[piece + 1], rank, stamp, at
        ):
            continue
        if not _in_box(posting, piece, x, y, lon[at], lat[at], fine_boxes, boxes):
            continue
        hit_object[kept], hit_unit[kept], hit_posting[kept] = at, hit_unit[h], piece
        kept += 1
    return kept


@kernel
def verify(hits, waiting, objects, segment, deleted, tally, stamp, found_object, found_key):
    """Put the pairs among the first `waiting` hits into found_object int32[] and found_key int64[]; returns how many.

    `stamp` int32[terms of the segment] holds, of each term, the last object verified that has it; -1 before the first.
    The validity is looked up in a loop of its own, so that the processor fetches many records at a time: each is far
    from the one before.
    """
    waiting = _satisfied(hits, waiting, objects, segment, stamp)
    hit_object, hit_unit, hit_piece = hits
    lon, lat, ts = objects.lon, objects.lat, objects.ts
    records, circles = segment.records, segment.circles
    marks, pieces, ends, after_key = deleted
    _, matches, counts = tally
    found = 0
    for h in range(waiting):
        at, piece = hit_object[h], hit_piece[h]
        key, created, end, circle = records[piece, 0], records[piece, 1], records[piece, 2], records[piece, 3]
        if (marks[piece >> 6] >> np.uint64(piece & 63)) & np.uint64(1):
            end = min(end, ends[find(pieces, 0, len(pieces), piece)])
        held = (created <= ts[at]) & (ts[at] < end) & (key > after_key)
        if circle >= 0:
            held = held and _in_circle(circles[circle], lon[at], lat[at])
        found_object[found], found_key[found] = at, key
        found += held
        matches[hit_unit[h]] += held
        counts[at] += held
    return found
