"""Matching a micro-batch with one index segment: arrays in, pairs out.

A micro-batch is a join, not a loop: the objects come sorted in Morton order, so that on every level of cells they stand
in the order of the segment's cells; the two are walked in step, and each cell's postings are read once a batch.
"""

import math

import numpy as np

from pststream.kernels.cells import MAX_LEVEL, column_of, interleave, row_of
from pststream.kernels.compile import kernel
from pststream.kernels.segment import filter_bit, look_up

EARTH_RADIUS_M = 6_371_008.8


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
def _end_of(piece, end, ended_pieces, ended_at):
    """End of validity of a piece that a deletion names: the earlier of its own and the deletion's."""
    at = np.searchsorted(ended_pieces, piece)
    return min(end, ended_at[at])


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


@kernel
def match_segment(
    codes, lon, lat, ts, offsets, local, mask, unit,
    levels, level_cells, cells, cell_keys, key_term, key_postings, filter_offsets, filters, longest,
    boxes, posting_piece, posting_rank, records, literal_offsets, literals, circles,
    ended, ended_pieces, ended_at, after_key, terms, unit_candidates, unit_matches, counts,
):  # fmt: skip
    """All pairs of objects (sorted by `codes`) and pieces of one segment.

    `ended` uint8[pieces] marks those named in `ended_pieces`; only subscriptions with a key above `after_key` count.
    Adds to `unit_candidates`, `unit_matches` int64[units] and `counts` int64[objects].
    Returns object int32[pairs], subscription_key int64[pairs], in no order.
    """
    found_object = np.empty(max(1024, 4 * len(codes)), np.int32)
    found_key = np.empty(max(1024, 4 * len(codes)), np.int64)
    found = 0
    stamp = np.zeros(terms, np.int32)
    serial = 0
    hits = np.empty(longest + 1, np.int64)
    for depth in range(len(levels)):
        level = levels[depth]
        bit = np.uint32(1 << level)
        shift = 2 * (MAX_LEVEL - level)
        marker = 1 << (2 * level)
        at = 0
        cell = level_cells[depth]
        last_cell = level_cells[depth + 1]
        while at < len(codes) and cell < last_cell:
            here = marker | (codes[at] >> shift)
            if cells[cell] < here:
                cell = _first_at_least(cells, cell, last_cell, here)
                continue
            if cells[cell] > here:
                at = _first_at_least(codes, at, len(codes), (cells[cell] - marker) << shift)
                continue
            low_key, high_key = cell_keys[cell], cell_keys[cell + 1]
            words = filter_offsets[cell]
            last_bit = ((filter_offsets[cell + 1] - words) << 6) - 1
            while at < len(codes) and (marker | (codes[at] >> shift)) == here:
                x, y, when = lon[at], lat[at], ts[at]
                stamped = False
                for j in range(offsets[at], offsets[at + 1]):
                    if mask[j] & bit == 0:
                        continue
                    term = local[j]
                    place = filter_bit(term, last_bit)
                    if (filters[words + (place >> 6)] >> np.uint64(place & 63)) & np.uint64(1) == 0:
                        continue
                    key = _find(key_term, low_key, high_key, term)
                    if key == high_key or key_term[key] != term:
                        continue
                    unit_candidates[unit[j]] += key_postings[key + 1] - key_postings[key]
                    before = found
                    for h in range(_inside(boxes, key_postings[key], key_postings[key + 1], x, y, hits)):
                        p = hits[h]
                        piece = posting_piece[p]
                        rank = posting_rank[p]
                        if rank >= 0:
                            if not stamped:
                                stamped = True
                                serial += 1
                                for s in range(offsets[at], offsets[at + 1]):
                                    stamp[local[s]] = serial
                            if not _clauses_hold(
                                literals, literal_offsets[piece], literal_offsets[piece + 1], rank, stamp, serial
                            ):
                                continue
                        if when < records[piece, 1] or records[piece, 0] <= after_key:
                            continue
                        end = records[piece, 2]
                        if ended[piece]:
                            end = _end_of(piece, end, ended_pieces, ended_at)
                        if when >= end:
                            continue
                        if records[piece, 3] >= 0 and not _in_circle(circles[records[piece, 3]], x, y):
                            continue
                        if found == len(found_key):
                            found_object = _grown(found_object)
                            found_key = _grown(found_key)
                        found_object[found] = at
                        found_key[found] = records[piece, 0]
                        found += 1
                    unit_matches[unit[j]] += found - before
                    counts[at] += found - before
                at += 1
            cell += 1
    return found_object[:found], found_key[:found]


@kernel
def place_pairs(found_object, found_key, following, keys):
    """Put each pair's key at its object's next free place (`following` int64[objects], advanced)."""
    for i in range(len(found_object)):
        at = following[found_object[i]]
        keys[at] = found_key[i]
        following[found_object[i]] = at + 1
