"""Match a micro-batch of objects with one index segment; return the pairs (object, subscription key) that match.

The kernel is a merge join: the objects are sorted in Morton order, which on every level of the quadtree is also the
order of the segment's index cells. Objects and cells are walked in step, so each cell is visited once in a batch.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import inlined, kernel
from pststream.kernels.matching.build_segment import look_up, spot_of
from pststream.kernels.matching.index_cells import MAX_LEVEL, column_of, fine_x, fine_y, interleave, row_of
from pststream.kernels.matching.verify import Hits, verify
from pststream.kernels.search import find, gallop


class LocalObjects(NamedTuple):
    """Objects in Morton order with their terms as one segment numbers them (see `localize`).

    codes int64[n]; lon, lat float64[n]; ts int64[n]; offsets int64[n+1]; term int32[m]; spot int64[m];
    mask uint32[m]; unit int32[m].
    """

    codes: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    ts: np.ndarray
    offsets: np.ndarray
    term: np.ndarray
    spot: np.ndarray
    mask: np.ndarray
    unit: np.ndarray


class SearchCounts(NamedTuple):
    """Counts that a batch adds to: candidates, matches int64[units]; pairs int64[objects]."""

    candidates: np.ndarray
    matches: np.ndarray
    pairs: np.ndarray


@kernel
def point_codes(lon, lat):
    """Morton number of each point's cell on the finest level: int64[n]."""
    codes = np.empty(len(lon), np.int64)
    for i in range(len(lon)):
        codes[i] = interleave(column_of(lon[i]), row_of(lat[i]))
    return codes


@kernel
def localize(term_offsets, terms, units, slots, places, bits, levels_of_term):
    """Replace the terms of each object by their numbers in the segment, and drop terms that the segment does not have.

    `units` int32, parallel to `terms`: the unit that the (object, term) is probed for; -1: the term is only used to
    verify clauses. Returns offsets int64[n+1], term int32[m], spot int64[m] (see `spot_of`), mask uint32[m] (levels to
    probe; 0: none), unit int32[m].
    """
    objects = len(term_offsets) - 1
    offsets = np.empty(objects + 1, np.int64)
    term = np.empty(len(terms), np.int32)
    spot = np.empty(len(terms), np.int64)
    mask = np.empty(len(terms), np.uint32)
    unit = np.empty(len(terms), np.int32)
    count = 0
    for i in range(objects):
        offsets[i] = count
        for j in range(term_offsets[i], term_offsets[i + 1]):
            place = look_up(terms[j], slots, places, bits)
            if place >= 0:
                term[count] = place
                spot[count] = spot_of(place, len(levels_of_term))
                mask[count] = levels_of_term[place] if units[j] >= 0 else np.uint32(0)
                unit[count] = units[j]
                count += 1
    offsets[objects] = count
    return offsets, term[:count].copy(), spot[:count].copy(), mask[:count].copy(), unit[:count].copy()


@kernel
def _doubled(array):
    wider = np.empty(2 * len(array), array.dtype)
    wider[: len(array)] = array
    return wider


@kernel
def _append_near(fine_boxes, first, last, x, y, hit_posting, waiting):
    """Append the postings in [first, last) whose box contains the point, in whole steps; return the number of hits."""
    for p in range(first, last):
        hit_posting[waiting] = p
        waiting += (x >= fine_boxes[p, 0]) & (x <= fine_boxes[p, 2]) & (y >= fine_boxes[p, 1]) & (y <= fine_boxes[p, 3])
    return waiting


@inlined
def _posting_key(term, spot, cell, cell_buckets, buckets, key_term):
    """Place of a term among the keys of an index cell, or -1 (see matching/segments.py for the buckets)."""
    place = spot >> cell_buckets[cell, 1]
    bucket = cell_buckets[cell, 0] + (place >> 6)
    key = -1
    if (buckets[bucket, 0] >> np.uint64(place & 63)) & np.uint64(1) != 0:
        last = np.int64(buckets[bucket + 1, 1])
        candidate = find(key_term, np.int64(buckets[bucket, 1]), last, term)
        if candidate < last and key_term[candidate] == term:
            key = candidate
    return key


@kernel
def match_segment(objects, segment, deleted, counts, hit_buffer, max_pairs):
    """Find all matching pairs of `objects` (in Morton order) and the pieces of one segment; add to `counts`.

    Hits are verified when `hit_buffer` of them are waiting; `hit_buffer` is at least the length of the longest posting
    list. Returns object int32[pairs], subscription key int64[pairs], in no order. The search stops early, with some of
    the pairs, once there are more than `max_pairs`.
    """
    # A field of a tuple costs two atomic operations each time it is read, so the hot loop reads plain names.
    codes, lon, lat, _, offsets, term, spot, mask, unit = objects
    cells, cell_buckets, buckets = segment.cells, segment.cell_buckets, segment.buckets
    key_term, key_postings, fine_boxes = segment.key_term, segment.key_postings, segment.fine_boxes
    candidates, _, _ = counts
    size = hit_buffer + 1
    hits = Hits(np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int64))
    hit_object, hit_unit, hit_posting = hits
    pair_object, pair_key = np.empty(4 * hit_buffer, np.int32), np.empty(4 * hit_buffer, np.int64)
    last_object = np.full(len(segment.terms), np.int32(-1))
    pairs, waiting = 0, 0
    for depth in range(len(segment.levels)):
        level = segment.levels[depth]
        bit, shift, marker = np.uint32(1 << level), 2 * (MAX_LEVEL - level), 1 << (2 * level)
        i, cell, last_cell = 0, segment.level_cells[depth], segment.level_cells[depth + 1]
        while i < len(codes) and cell < last_cell:
            # Advance the objects or the cells, whichever are behind, until an object lies in the cell.
            own_cell = marker | (codes[i] >> shift)
            if cells[cell] < own_cell:
                cell = gallop(cells, cell, last_cell, own_cell)
                continue
            if cells[cell] > own_cell:
                i = gallop(codes, i, len(codes), (cells[cell] - marker) << shift)
                continue
            x, y = fine_x(lon[i]), fine_y(lat[i])
            for j in range(offsets[i], offsets[i + 1]):
                # Look up the object's term among the keys of the cell.
                if mask[j] & bit == 0:
                    continue
                key = _posting_key(term[j], spot[j], cell, cell_buckets, buckets, key_term)
                if key < 0:
                    continue
                first, last = key_postings[key], key_postings[key + 1]
                if waiting + last - first > hit_buffer:
                    # Verify the waiting hits to make room for this posting list.
                    while pairs + waiting > len(pair_key):
                        pair_object, pair_key = _doubled(pair_object), _doubled(pair_key)
                    pairs += verify(
                        hits, waiting, objects, segment, deleted, counts, last_object, pair_object[pairs:],
                        pair_key[pairs:],
                    )  # fmt: skip
                    waiting = 0
                    if pairs > max_pairs:
                        return pair_object[:pairs], pair_key[:pairs]
                # Keep the postings whose box contains the object as hits.
                before = waiting
                waiting = _append_near(fine_boxes, first, last, x, y, hit_posting, waiting)
                candidates[unit[j]] += last - first
                for h in range(before, waiting):
                    hit_object[h] = i
                    hit_unit[h] = unit[j]
            i += 1
    # Verify the remaining hits.
    while pairs + waiting > len(pair_key):
        pair_object, pair_key = _doubled(pair_object), _doubled(pair_key)
    pairs += verify(
        hits, waiting, objects, segment, deleted, counts, last_object, pair_object[pairs:], pair_key[pairs:]
    )
    return pair_object[:pairs], pair_key[:pairs]


@kernel
def place_pairs(pair_object, pair_key, following, keys):
    """Put each pair's key at its object's next free place (`following` int64[objects], advanced)."""
    for p in range(len(pair_object)):
        place = following[pair_object[p]]
        keys[place] = pair_key[p]
        following[pair_object[p]] = place + 1
