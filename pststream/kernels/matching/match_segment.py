"""Matching a micro-batch with one index segment: arrays in, pairs out.

A micro-batch is a join, not a loop: the objects come sorted in Morton order, so that on every level of cells they stand
in the order of the segment's cells; the two are walked in step, and each cell's postings are read once a batch.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import inlined, kernel
from pststream.kernels.matching.build_segment import look_up, spot_of
from pststream.kernels.matching.index_cells import MAX_LEVEL, column_of, fine_x, fine_y, interleave, row_of
from pststream.kernels.matching.verify import Hits, verify
from pststream.kernels.search import find, gallop


class LocalObjects(NamedTuple):
    """Objects in Morton order, their terms as one segment numbers them (see `localize`)."""

    codes: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    ts: np.ndarray
    offsets: np.ndarray
    local: np.ndarray
    spot: np.ndarray
    mask: np.ndarray
    unit: np.ndarray


class Tally(NamedTuple):
    """Counts that a batch adds to: candidates, matches int64[units]; counts (pairs) int64[objects]."""

    candidates: np.ndarray
    matches: np.ndarray
    counts: np.ndarray


@kernel
def point_codes(lon, lat):
    """Morton number of each point's cell on the finest level: int64[n]."""
    codes = np.empty(len(lon), np.int64)
    for i in range(len(lon)):
        codes[i] = interleave(column_of(lon[i]), row_of(lat[i]))
    return codes


@kernel
def localize(term_offsets, terms, units, slots, places, bits, levels_of_term):
    """Terms of each object as the segment numbers them; those it does not know are dropped.

    `units` int32, parallel to `terms`: the unit that the (object, term) is probed for, or -1: only for verification.
    Returns offsets int64[n+1], local int32[m], spot int64[m] (see `spot_of`), mask uint32[m] (levels to probe; 0:
    none), unit int32[m].
    """
    objects = len(term_offsets) - 1
    offsets = np.empty(objects + 1, np.int64)
    local = np.empty(len(terms), np.int32)
    spot = np.empty(len(terms), np.int64)
    mask = np.empty(len(terms), np.uint32)
    unit = np.empty(len(terms), np.int32)
    at = 0
    for i in range(objects):
        offsets[i] = at
        for j in range(term_offsets[i], term_offsets[i + 1]):
            place = look_up(terms[j], slots, places, bits)
            if place >= 0:
                local[at] = place
                spot[at] = spot_of(place, len(levels_of_term))
                mask[at] = levels_of_term[place] if units[j] >= 0 else np.uint32(0)
                unit[at] = units[j]
                at += 1
    offsets[objects] = at
    return offsets, local[:at].copy(), spot[:at].copy(), mask[:at].copy(), unit[:at].copy()


@kernel
def _grown(array):
    wider = np.empty(2 * len(array), array.dtype)
    wider[: len(array)] = array
    return wider


@kernel
def _near(fine_boxes, first, last, x, y, hit_posting, waiting):
    """Postings in [first, last) whose box holds the point, in whole steps; returns the number then waiting."""
    for p in range(first, last):
        hit_posting[waiting] = p
        waiting += (x >= fine_boxes[p, 0]) & (x <= fine_boxes[p, 2]) & (y >= fine_boxes[p, 1]) & (y <= fine_boxes[p, 3])
    return waiting


@inlined
def _posting_key(term, spot, cell, cell_buckets, buckets, key_term):
    """Place of a term among the keys of a cell, or -1 (see matching/segments.py for the buckets)."""
    place = spot >> cell_buckets[cell, 1]
    bucket = cell_buckets[cell, 0] + (place >> 6)
    key = -1
    if (buckets[bucket, 0] >> np.uint64(place & 63)) & np.uint64(1) != 0:
        last = np.int64(buckets[bucket + 1, 1])
        found = find(key_term, np.int64(buckets[bucket, 1]), last, term)
        if found < last and key_term[found] == term:
            key = found
    return key


@kernel
def match_segment(objects, segment, deleted, tally, room, most):
    """All pairs of `objects` (in Morton order) and the pieces of one segment; adds to `tally`.

    Hits are verified when `room` are waiting, at least the length of the longest posting list. Returns object
    int32[pairs], subscription key int64[pairs], in no order; with more than `most` pairs, some of them.
    """
    # A field of a tuple costs two atomic operations each time it is read, so the hot loop reads plain names.
    codes, lon, lat, _, offsets, local, spot, mask, unit = objects
    cells, cell_buckets, buckets = segment.cells, segment.cell_buckets, segment.buckets
    key_term, key_postings, fine_boxes = segment.key_term, segment.key_postings, segment.fine_boxes
    candidates, _, _ = tally
    hits = Hits(np.empty(room + 1, np.int32), np.empty(room + 1, np.int32), np.empty(room + 1, np.int64))
    hit_object, hit_unit, hit_posting = hits
    found_object, found_key = np.empty(4 * room, np.int32), np.empty(4 * room, np.int64)
    stamp = np.full(len(segment.terms), np.int32(-1))
    found, waiting = 0, 0
    for depth in range(len(segment.levels)):
        level = segment.levels[depth]
        bit, shift, marker = np.uint32(1 << level), 2 * (MAX_LEVEL - level), 1 << (2 * level)
        at, cell, last_cell = 0, segment.level_cells[depth], segment.level_cells[depth + 1]
        while at < len(codes) and cell < last_cell:
            here = marker | (codes[at] >> shift)
            if cells[cell] < here:
                cell = gallop(cells, cell, last_cell, here)
                continue
            if cells[cell] > here:
                at = gallop(codes, at, len(codes), (cells[cell] - marker) << shift)
                continue
            x, y = fine_x(lon[at]), fine_y(lat[at])
            for j in range(offsets[at], offsets[at + 1]):
                if mask[j] & bit == 0:
                    continue
                key = _posting_key(local[j], spot[j], cell, cell_buckets, buckets, key_term)
                if key < 0:
                    continue
                first, last = key_postings[key], key_postings[key + 1]
                if waiting + last - first > room:
                    while found + waiting > len(found_key):
                        found_object, found_key = _grown(found_object), _grown(found_key)
                    found += verify(
                        hits, waiting, objects, segment, deleted, tally, stamp, found_object[found:], found_key[found:]
                    )
                    waiting = 0
                    if found > most:
                        return found_object[:found], found_key[:found]
                before = waiting
                waiting = _near(fine_boxes, first, last, x, y, hit_posting, waiting)
                candidates[unit[j]] += last - first
                for h in range(before, waiting):
                    hit_object[h] = at
                    hit_unit[h] = unit[j]
            at += 1
    while found + waiting > len(found_key):
        found_object, found_key = _grown(found_object), _grown(found_key)
    found += verify(hits, waiting, objects, segment, deleted, tally, stamp, found_object[found:], found_key[found:])
    return found_object[:found], found_key[:found]


@kernel
def place_pairs(found_object, found_key, following, keys):
    """Put each pair's key at its object's next free place (`following` int64[objects], advanced)."""
    for i in range(len(found_object)):
        at = following[found_object[i]]
        keys[at] = found_key[i]
        following[found_object[i]] = at + 1
