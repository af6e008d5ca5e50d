"""Matching a micro-batch with one index segment: arrays in, pairs out.

A micro-batch is a join, not a loop: the objects come sorted in Morton order, so that on every level of cells they stand
in the order of the segment's cells; the two are walked in step, and each cell's postings are read once a batch.
"""

import math
from typing import NamedTuple

import numpy as np

from pststream.kernels.cells import MAX_LEVEL, column_of, interleave, row_of
from pststream.kernels.compile import inlined, kernel
from pststream.kernels.segment import filter_bit, look_up

EARTH_RADIUS_M = 6_371_008.8


class LocalObjects(NamedTuple):
    """Objects in Morton order, their terms as one segment numbers them (see `localize`)."""

    codes: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    ts: np.ndarray
    offsets: np.ndarray
    local: np.ndarray
    mask: np.ndarray
    unit: np.ndarray


class Deleted(NamedTuple):
    """Pieces that deletions end: marks uint8[pieces]; pieces int64[d], ascending; ends int64[d].

    Only subscriptions with a key above `after_key` count.
    """

    marks: np.ndarray
    pieces: np.ndarray
    ends: np.ndarray
    after_key: int


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
    Returns offsets int64[n+1], local int32[m], mask uint32[m] (levels to probe; 0: none), unit int32[m].
    """
    objects = len(term_offsets) - 1
    offsets = np.empty(objects + 1, np.int64)
    local = np.empty(len(terms), np.int32)
    mask = np.empty(len(terms), np.uint32)
    unit = np.empty(len(terms), np.int32)
    at = 0
    for i in range(objects):
        offsets[i] = at
        for j in range(term_offsets[i], term_offsets[i + 1]):
            place = look_up(terms[j], slots, places, bits)
            if place >= 0:
                local[at] = place
                mask[at] = levels_of_term[place] if units[j] >= 0 else np.uint32(0)
                unit[at] = units[j]
                at += 1
    offsets[objects] = at
    return offsets, local[:at].copy(), mask[:at].copy(), unit[:at].copy()


@kernel
def _first_at_least(values, low, high, wanted):
    """First index in [low, high) whose value is at least `wanted` (galloping, then halving)."""
    step = 1
    probe = low
    while probe < high and values[probe] < wanted:
        low = probe + 1
        probe += step
        step *= 2
    high = min(probe, high)
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _in_circle(circle, lon, lat):
    """Great-circle distance by the haversine formula, edge included."""
    lon1, lat1 = math.radians(circle[0]), math.radians(circle[1])
    lon2, lat2 = math.radians(lon), math.radians(lat)
    a = math.sin((lat2 - lat1) / 2.0) ** 2
    a += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2.0) ** 2
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a))) <= circle[2]


@kernel
def _clauses_hold(literals, start, stop, rank, stamp, serial):
    """Whether the posting's term is the first of its clause that the object has, and every other clause has a term.

    Literals of a piece: size of the first clause, its terms, size of the next, its terms ... A stamp equal to `serial`
    marks the terms of the object.
    """
    first = start + 1
    for at in range(first, first + rank):
        if stamp[literals[at]] == serial:
            return False
    at = first + literals[start]
    while at < stop:
        size = literals[at]
        held = False
        for term_at in range(at + 1, at + 1 + size):
            if stamp[literals[term_at]] == serial:
                held = True
                break
        if not held:
            return False
        at += 1 + size
    return True


@kernel
def _grown(array):
    wider = np.empty(2 * len(array), array.dtype)
    wider[: len(array)] = array
    return wider


@kernel
def _find(key_term, low, high, term):
    """First place in [low, high) with at least `term`; no branch to mispredict."""
    size = high - low
    while size > 1:
        half = size >> 1
        low += half * (key_term[low + half - 1] < term)
        size -= half
    return low + (size == 1 and key_term[low] < term)


@kernel
def _inside(boxes, first, last, x, y, hits):
    """Postings in [first, last) whose box holds the point; returns how many were put into `hits`."""
    count = 0
    for p in range(first, last):
        hits[count] = p
        count += (x >= boxes[p, 0]) & (x <= boxes[p, 2]) & (y >= boxes[p, 1]) & (y <= boxes[p, 3])
    return count


@inlined
def _posting_key(term, cell, filter_offsets, filters, cell_keys, key_term):
    """Place of a term among the keys of a cell, or -1."""
    words = filter_offsets[cell]
    bit = filter_bit(term, ((filter_offsets[cell + 1] - words) << 6) - 1)
    key = -1
    if (filters[words + (bit >> 6)] >> np.uint64(bit & 63)) & np.uint64(1) != 0:
        last = cell_keys[cell + 1]
        place = _find(key_term, cell_keys[cell], last, term)
        if place < last and key_term[place] == term:
            key = place
    return key


@inlined
def _valid(piece, when, records, marks, pieces, ends, after_key):
    """Whether a time lies in the validity of a piece, which a deletion may have cut short."""
    end = records[piece, 2]
    if marks[piece]:
        end = min(end, ends[np.searchsorted(pieces, piece)])
    return records[piece, 1] <= when < end and records[piece, 0] > after_key


@kernel
def match_segment(objects, segment, deleted, tally, longest):
    """All pairs of `objects` (in Morton order) and the pieces of one segment; adds to `tally`.

    `longest` is the length of the longest posting list. Returns object int32[pairs], subscription key int64[pairs], in
    no order.
    """
    # A field of a tuple costs two atomic operations each time it is read, so the hot loop reads plain names.
    codes, lon, lat, ts, offsets, local, mask, unit = objects
    cells, cell_keys, key_term, key_postings = segment.cells, segment.cell_keys, segment.key_term, segment.key_postings
    filter_offsets, filters, boxes, circles = segment.filter_offsets, segment.filters, segment.boxes, segment.circles
    posting_piece, posting_rank, records = segment.posting_piece, segment.posting_rank, segment.records
    literal_offsets, literals = segment.literal_offsets, segment.literals
    marks, pieces, ends, after_key = deleted
    candidates, matches, counts = tally
    found_object = np.empty(max(1024, 4 * len(codes)), np.int32)
    found_key = np.empty(len(found_object), np.int64)
    stamp, hits = np.zeros(len(segment.terms), np.int32), np.empty(longest + 1, np.int64)
    found, serial = 0, 0
    for depth in range(len(segment.levels)):
        level = segment.levels[depth]
        bit, shift, marker = np.uint32(1 << level), 2 * (MAX_LEVEL - level), 1 << (2 * level)
        at, cell, last_cell = 0, segment.level_cells[depth], segment.level_cells[depth + 1]
        while at < len(codes) and cell < last_cell:
            here = marker | (codes[at] >> shift)
            if cells[cell] < here:
                cell = _first_at_least(cells, cell, last_cell, here)
                continue
            if cells[cell] > here:
                at = _first_at_least(codes, at, len(codes), (cells[cell] - marker) << shift)
                continue
            x, y, when, stamped = lon[at], lat[at], ts[at], False
            for j in range(offsets[at], offsets[at + 1]):
                if mask[j] & bit == 0:
                    continue
                key = _posting_key(local[j], cell, filter_offsets, filters, cell_keys, key_term)
                if key < 0:
                    continue
                first, last = key_postings[key], key_postings[key + 1]
                candidates[unit[j]] += last - first
                inside = _inside(boxes, first, last, x, y, hits)
                if inside > 0 and not stamped:
                    stamped = True
                    serial += 1
                    for s in range(offsets[at], offsets[at + 1]):
                        stamp[local[s]] = serial
                while found + inside > len(found_key):
                    found_object, found_key = _grown(found_object), _grown(found_key)
                before = found
                for h in range(inside):
                    piece, rank = posting_piece[hits[h]], posting_rank[hits[h]]
                    if rank >= 0 and not _clauses_hold(
                        literals, literal_offsets[piece], literal_offsets[piece + 1], rank, stamp, serial
                    ):
                        continue
                    if not _valid(piece, when, records, marks, pieces, ends, after_key):
                        continue
                    if records[piece, 3] >= 0 and not _in_circle(circles[records[piece, 3]], x, y):
                        continue
                    found_object[found] = at
                    found_key[found] = records[piece, 0]
                    found += 1
                matches[unit[j]] += found - before
                counts[at] += found - before
            at += 1
    return found_object[:found], found_key[:found]


@kernel
def place_pairs(found_object, found_key, following, keys):
    """Put each pair's key at its object's next free place (`following` int64[objects], advanced)."""
    for i in range(len(found_object)):
        at = following[found_object[i]]
        keys[at] = found_key[i]
        following[found_object[i]] = at + 1
