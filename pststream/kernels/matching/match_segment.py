"""Match a micro-batch of objects with one index segment; return the subscription keys that match each object.

The objects are sorted in Morton order, which on every level of the quadtree is also the order of the segment's index
cells, so objects and cells are walked in step. A block of objects goes through one stage after another: its terms are
looked up, then the cells of its points, the buckets of each (term, cell), the keys in them, the posting lists, the
records of the hits. Each stage computes the addresses that the next one reads and begins to fetch them, so that the
processor waits for many reads at a time.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import count_bits, prefetch
from pststream.kernels.matching.contains_point import contains_point
from pststream.kernels.matching.index_cells import MAX_LEVEL, fine_column, fine_row
from pststream.kernels.matching.postings import (
    GUARDS,
    HIGH,
    LAST_OF_CLAUSE,
    LAST_OF_PIECE,
    LOW,
    ONES,
    PIECE_BITS,
    TERM,
    encode_point,
    find_far_posting,
    find_value,
    place_bits,
    slot_of,
    spot_scale,
    table_shift,
    term_bit,
)
from pststream.kernels.sort_and_search import find, gallop, with_room

# Load a block of objects: their points, and their terms as the segment numbers them.

OBJECTS = 256
"""Maximum number of objects of a block."""

TERMS = 4096
"""Number of terms of a block, unless its only object has more."""

_BLOCK_AHEAD = 32
"""Objects ahead whose first data are fetched."""

_TERMS_AHEAD = 256
"""Terms ahead whose slot is fetched: the slots of a whole block do not fit into the nearest cache."""


class Objects(NamedTuple):
    """Objects of a batch: `order` int64[n] and codes int64[n] (ascending) in Morton order, the others as they came.

    lon, lat float64[n]; ts int64[n]; term_offsets int64[n+1]; terms int64[m]; units int32[m].
    """

    order: np.ndarray
    codes: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    ts: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray
    units: np.ndarray


class Block(NamedTuple):
    """Objects of a block, in Morton order.

    lon, lat float64[OBJECTS]; ts, column, row int64[OBJECTS]: time-stamp, fine column and row; words uint64[OBJECTS]:
    mask of the terms (`postings.term_bit`); offsets int64[OBJECTS+1]: slice of the terms of each object.

    Of each term that the segment has: term int32[t]: its number; levels int64[t]: bit l is set if it is to be probed on
    level l; unit int32[t]. slots int64[t], ids int64[t] are scratch.
    """

    lon: np.ndarray
    lat: np.ndarray
    ts: np.ndarray
    column: np.ndarray
    row: np.ndarray
    words: np.ndarray
    offsets: np.ndarray
    term: np.ndarray
    levels: np.ndarray
    unit: np.ndarray
    slots: np.ndarray
    ids: np.ndarray


@kernel
def make_block(term_offsets):
    """Make an empty block for the objects with these offsets of terms."""
    longest = np.int64(TERMS)
    for i in range(len(term_offsets) - 1):
        longest = max(longest, term_offsets[i + 1] - term_offsets[i])
    size = OBJECTS
    return Block(
        np.empty(size), np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64),
        np.empty(size, np.uint64), np.empty(size + 1, np.int64), np.empty(longest, np.int32),
        np.empty(longest, np.int64), np.empty(longest, np.int32), np.empty(longest, np.int64),
        np.empty(longest, np.int64),
    )  # fmt: skip


@kernel
def _begin(objects, start, block):
    """Begin to fetch the terms of the objects from `start` on; return where the block ends."""
    order, _, lon, lat, ts, term_offsets, terms, units = objects
    stop, count, room = start, 0, len(block.term)
    while stop < len(order) and stop - start < OBJECTS:
        ahead = order[min(stop + _BLOCK_AHEAD, len(order) - 1)]
        prefetch(term_offsets, ahead)
        prefetch(lon, ahead)
        prefetch(lat, ahead)
        prefetch(ts, ahead)
        first, last = term_offsets[order[stop]], term_offsets[order[stop] + 1]
        count += last - first
        if count > room:
            break
        if first < last:
            prefetch(terms, first)
            prefetch(terms, last - 1)
            prefetch(units, first)
            prefetch(units, last - 1)
        stop += 1
    return stop


@kernel
def load_block(objects, start, term_table, block):
    """Load the objects from `start` on, as many as fit; return where the block ends."""
    order, _, lon, lat, ts, term_offsets, terms, units = objects
    block_term, levels, block_unit, slots, ids = block.term, block.levels, block.unit, block.slots, block.ids
    offsets, words, block_lon, block_lat, block_ts = block.offsets, block.words, block.lon, block.lat, block.ts
    column, row = block.column, block.row
    stop = _begin(objects, start, block)
    # Copy the objects, and compute the slots of their terms.
    shift, count = table_shift(term_table), 0
    for b in range(stop - start):
        i = order[start + b]
        block_lon[b], block_lat[b], block_ts[b] = lon[i], lat[i], ts[i]
        column[b], row[b] = fine_column(lon[i]), fine_row(lat[i])
        for j in range(term_offsets[i], term_offsets[i + 1]):
            slots[count], ids[count], block_unit[count] = slot_of(terms[j], shift), terms[j], units[j]
            count += 1
        offsets[b] = count
    # Replace the terms by their numbers; drop those that the segment does not have. Each is written, but only those
    # that are kept advance the place: there is no branch to mispredict.
    for t in range(min(count, _TERMS_AHEAD)):
        prefetch(term_table, slots[t])
    kept, first = 0, 0
    for b in range(stop - start):
        last, mask = offsets[b], np.uint64(0)
        offsets[b] = kept
        for t in range(first, last):
            prefetch(term_table, slots[min(t + _TERMS_AHEAD, count - 1)])
            value, unit = find_value(ids[t], slots[t], term_table), block_unit[t]
            block_term[kept], block_unit[kept] = value & 0xFFFFFFFF, unit
            levels[kept] = value >> 32 if unit >= 0 else 0
            known = value >= 0
            mask |= np.uint64(known) * term_bit(value)
            kept += known
        words[b], first = mask, last
    offsets[stop - start] = kept
    return stop


# Verify hits: test clauses, exact boxes, shapes, validity and deletions; write the keys of the matches.

LIST_SHIFT = np.uint64(34)
"""A hit (uint64) is a piece, the two flags, and the number of its posting list from bit LIST_SHIFT on."""

UNSURE_BOX = np.uint64(1 << 31)
"""Flag of a hit: the point is on a step of a side of the box, and the exact box decides."""

UNSURE_WORDS = np.uint64(1 << 32)
"""Flag of a hit: literals decide whether the clauses hold."""

UNSURE = np.uint64(3 << 31)
NO_MATCH = np.uint64(1 << 33)


class PostingLists(NamedTuple):
    """Posting lists that the objects of a block read, in the order of the objects.

    first, last int64[lists]: slice of the postings; object int32[lists]: the object in the block; term int32[lists]:
    its term, an index of the terms of the block; level int32[lists]; pairs int64[lists]: matches.
    """

    first: np.ndarray
    last: np.ndarray
    object: np.ndarray
    term: np.ndarray
    level: np.ndarray
    pairs: np.ndarray


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
def _least_with(wanted, low, subscription_keys, key_order):
    """Return the first place in `key_order` from `low` on whose piece has a key of at least `wanted`."""
    high = len(key_order)
    while low < high:
        middle = (low + high) >> 1
        if subscription_keys[key_order[middle]] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def find_pieces(keys, subscription_keys, key_order):
    """Return all pieces of each of ascending `keys` (int64[n]), and the index in `keys` of each: int64[p] twice."""
    place, count = 0, 0
    pieces, indexes = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    for index in range(len(keys)):
        place = _least_with(keys[index], place, subscription_keys, key_order)
        while place < len(key_order) and subscription_keys[key_order[place]] == keys[index]:
            pieces, indexes = with_room(pieces, count + 1), with_room(indexes, count + 1)
            pieces[count], indexes[count] = key_order[place], index
            place += 1
            count += 1
    return pieces[:count].copy(), indexes[:count].copy()


@kernel
def _has(wanted, term, first, last, words):
    """Return whether `wanted` is among the terms in [first, last), whose mask is `words`."""
    known = False
    if words & term_bit(wanted):
        # The hits of an object walk all of its terms: a loop of the same length is predicted, an early end is not.
        for t in range(first, last):
            known |= term[t] == wanted
    return known


@kernel
def _clauses_hold(literals, place, own, term, first, last, words):
    """Return whether the object has no word of the first clause before `own`, and a word of every other clause.

    The posting stands for one word of the first clause, so each pair is found under one posting only. The object has
    the terms in [first, last); `words` is their mask. `place` is the first literal of the piece.
    """
    while (literals[place] & TERM) != own:
        if _has(literals[place] & TERM, term, first, last, words):
            return False
        place += 1
    while not literals[place] & LAST_OF_CLAUSE:
        place += 1
    satisfied = True
    while satisfied and not literals[place] & LAST_OF_PIECE:
        satisfied = False
        place += 1
        while not literals[place] & LAST_OF_CLAUSE:
            satisfied = satisfied or _has(literals[place] & TERM, term, first, last, words)
            place += 1
        satisfied = satisfied or _has(literals[place] & TERM, term, first, last, words)
    return satisfied


@kernel
def _decide_unsure(hits, waiting, lists, block, segment, unsure):
    """Set NO_MATCH in the unsure hits that do not match."""
    subscription_keys, first_literals = segment.subscription_keys, segment.first_literals
    literals, boxes = segment.literals, segment.boxes
    offsets, term, words, lon, lat = block.offsets, block.term, block.words, block.lon, block.lat
    list_object, list_term = lists.object, lists.term
    # Collect the unsure hits, and begin to fetch the subscription keys of all.
    count = 0
    for h in range(waiting):
        prefetch(subscription_keys, np.int64(hits[h] & PIECE_BITS))
        unsure[count] = h
        count += hits[h] & UNSURE != 0
    for u in range(count):
        prefetch(first_literals, np.int64(hits[unsure[u]] & PIECE_BITS))
    for u in range(count):
        prefetch(literals, first_literals[hits[unsure[u]] & PIECE_BITS])
    for u in range(count):
        hit = hits[unsure[u]]
        piece, number = np.int64(hit & PIECE_BITS), np.int64(hit >> LIST_SHIFT)
        i, ok = list_object[number], True
        if hit & UNSURE_WORDS:
            place, own = first_literals[piece], term[list_term[number]]
            ok = _clauses_hold(literals, place, own, term, offsets[i], offsets[i + 1], words[i])
        if ok and hit & UNSURE_BOX:
            ok = boxes[piece, 0] <= lon[i] and lon[i] <= boxes[piece, 2]
            ok = ok and boxes[piece, 1] <= lat[i] and lat[i] <= boxes[piece, 3]
        if not ok:
            hits[unsure[u]] |= NO_MATCH


@kernel
def _decide_validity(hits, waiting, lists, block, segment, deleted):
    """Set NO_MATCH in the hits that are not valid at the object's time, or whose shape does not contain it."""
    subscription_keys, validity, exact_tests = segment.subscription_keys, segment.validity, segment.exact_tests
    codes, shape_offsets, shape_numbers = segment.shape_codes, segment.shape_offsets, segment.shape_numbers
    list_object, ts, lon, lat = lists.object, block.ts, block.lon, block.lat
    marks, pieces, ends, after_key = deleted
    for h in range(waiting):
        prefetch(validity, np.int64(hits[h] & PIECE_BITS))
    for h in range(waiting):
        hit = hits[h]
        piece, i = np.int64(hit & PIECE_BITS), list_object[hit >> LIST_SHIFT]
        end = validity[piece, 1]
        # Few pieces are deleted: a bit for each spares the search for the others.
        if (marks[piece >> 6] >> np.uint64(piece & 63)) & np.uint64(1):
            end = min(end, ends[find(pieces, 0, len(pieces), piece)])
        ok = (validity[piece, 0] <= ts[i]) & (ts[i] < end) & (subscription_keys[piece] > after_key)
        if len(exact_tests) > 0 and exact_tests[piece] >= 0 and ok and not hit & NO_MATCH:
            test = exact_tests[piece]
            ok = contains_point(
                codes[test], shape_numbers, shape_offsets[test], shape_offsets[test + 1], lon[i], lat[i]
            )
        hits[h] = hit | np.uint64(not ok) * NO_MATCH


@kernel
def verify(hits, waiting, lists, block, segment, deleted, always_valid, unsure, keys, pairs):
    """Write the subscription keys of the matches among the first `waiting` hits to `keys` from `pairs` on.

    always_valid: validity, deletions and shapes cannot decide; unsure int32[waiting] is scratch. Returns the number of
    pairs written so far; `lists.pairs` counts those of each list.
    """
    _decide_unsure(hits, waiting, lists, block, segment, unsure)
    if not always_valid:
        _decide_validity(hits, waiting, lists, block, segment, deleted)
    subscription_keys, list_pairs = segment.subscription_keys, lists.pairs
    for h in range(waiting):
        # Write every key, but advance only past a match: there is no branch to mispredict.
        ok = np.int64((hits[h] & NO_MATCH) == 0)
        keys[pairs] = subscription_keys[hits[h] & PIECE_BITS]
        pairs += ok
        list_pairs[hits[h] >> LIST_SHIFT] += ok
    return pairs


# Search a segment: from the cells of a block to its posting lists, and from these to hits.

_AHEAD = 128
"""Probes ahead whose bucket or key is fetched: what a whole block reads does not fit into the nearest cache."""

_LINE = 4
"""Postings of a cache line."""


class SearchCounts(NamedTuple):
    """Counts that a batch adds to: candidates, matches int64[units]."""

    candidates: np.ndarray
    matches: np.ndarray


@kernel
def _find_cells(codes, start, stop, segment, cursors, block_cells):
    """Find the cell of each object on each level in use: write its `cell_buckets`, or -1, to `block_cells`.

    block_cells  int64[objects,L]
    """
    cells, cell_buckets, level_cells = segment.cells, segment.cell_buckets, segment.level_cells
    for depth in range(len(segment.levels)):
        level = segment.levels[depth]
        shift, marker = 2 * (MAX_LEVEL - level), np.int64(1) << (2 * level)
        cell, last_cell, previous, buckets = cursors[depth], level_cells[depth + 1], np.int64(-1), np.int64(-1)
        for b in range(stop - start):
            own_cell = marker | (codes[start + b] >> shift)
            # Codes ascend: neighbours often share a cell, and the next cell is mostly near.
            if own_cell != previous:
                previous = own_cell
                cell = gallop(cells, cell, last_cell, own_cell)
                buckets = cell_buckets[cell] if cell < last_cell and cells[cell] == own_cell else np.int64(-1)
            block_cells[b, depth] = buckets
        cursors[depth] = cell


@kernel
def _probe_buckets(count, block, block_cells, segment, probe_bucket, lists):
    """Write the probes whose bit is set in their bucket, and the first key that may be theirs to `lists.first`.

    A probe is a term of one of the `count` objects and the cell of the object on a level that the term is posted on.
    Returns the number of probes kept.
    """
    offsets, block_term, levels_of = block.offsets, block.term, block.levels
    levels, buckets, scale = segment.levels, segment.buckets, spot_scale(len(segment.terms))
    first, list_object, list_term, list_level = lists.first, lists.object, lists.term, lists.level
    probes = 0
    for b in range(count):
        for depth in range(len(levels)):
            cell = block_cells[b, depth]
            if cell < 0:
                continue
            level, bucket, shift = levels[depth], cell >> 6, cell & 63
            for t in range(offsets[b], offsets[b + 1]):
                # Every probe is written, but only one on a level of its term advances.
                place = (block_term[t] * scale) >> shift
                probe_bucket[probes], first[probes] = bucket + (place >> 6), place & 63
                list_object[probes], list_term[probes], list_level[probes] = b, t, level
                probes += (levels_of[t] >> level) & 1
    for p in range(min(probes, _AHEAD)):
        prefetch(buckets, probe_bucket[p])
    kept = 0
    for p in range(probes):
        prefetch(buckets, probe_bucket[min(p + _AHEAD, probes - 1)])
        bucket, bit = probe_bucket[p], np.uint64(first[p])
        # The keys and postings of this bucket end where those of the next one begin.
        prefetch(buckets, bucket + 1)
        word = buckets[bucket, 0]
        # The bits below its own count the keys before it.
        below = word & ((np.uint64(1) << bit) - np.uint64(1))
        first[kept] = np.int64((buckets[bucket, 1] & LOW) + count_bits(below))
        probe_bucket[kept] = bucket
        list_object[kept], list_term[kept], list_level[kept] = list_object[p], list_term[p], list_level[p]
        kept += np.int64((word >> bit) & np.uint64(1))
    return kept


@kernel
def _find_lists(kept, block, segment, probe_bucket, lists, candidates):
    """Replace the keys of `kept` probes by the posting lists of those that have one; return their number.

    Each probe writes a list, but only one whose key has its term advances: there is no branch to mispredict.
    """
    block_term, unit, buckets, keys = block.term, block.unit, segment.buckets, segment.keys
    postings, far_keys, far_postings = segment.postings, segment.far_keys, segment.far_postings
    first, last, list_object, list_term, list_level = lists.first, lists.last, lists.object, lists.term, lists.level
    bits = place_bits(len(segment.terms))
    far = (np.int64(1) << bits) - 1
    for p in range(min(kept, _AHEAD)):
        prefetch(keys, first[p])
    list_count, greatest_key = 0, len(keys) - 1
    for p in range(kept):
        prefetch(keys, first[min(p + _AHEAD, kept - 1)])
        key, t, bucket = first[p], list_term[p], probe_bucket[p]
        wanted, base = np.int64(block_term[t]), np.int64(buckets[bucket, 1] >> HIGH)
        last_key, end = np.int64(buckets[bucket + 1, 1] & LOW), np.int64(buckets[bucket + 1, 1] >> HIGH)
        word = np.int64(keys[key])
        # Terms may share a bit, so the key may be some places further on.
        while word >> bits < wanted and key + 1 < last_key:
            key += 1
            word = np.int64(keys[key])
        place, next_place = word & far, np.int64(keys[min(key + 1, greatest_key)]) & far
        begin, next_begin = base + place, base + next_place
        # A place that does not fit into its key is in the list of far keys.
        if place == far:
            begin = find_far_posting(key, far_keys, far_postings)
        if next_place == far and key + 1 < last_key:
            next_begin = find_far_posting(key + 1, far_keys, far_postings)
        first[list_count], last[list_count] = begin, next_begin if key + 1 < last_key else end
        list_object[list_count], list_term[list_count], list_level[list_count] = list_object[p], t, list_level[p]
        list_count += word >> bits == wanted
    for number in range(list_count):
        prefetch(postings, first[number])
        prefetch(postings, min(first[number] + _LINE, last[number] - 1))
        prefetch(postings, last[number] - 1)
        candidates[unit[list_term[number]]] += last[number] - first[number]
    return list_count


@kernel
def _append_hits(postings, first, last, point, words, number, hits, waiting):
    """Append the postings in [first, last) whose box and mask admit the object; return the number of hits."""
    tag, absent = np.uint64(number) << LIST_SHIFT, ~words
    for p in range(first, last):
        box, info = postings[p, 0], postings[p, 1]
        # One subtraction compares all four sides: each lane keeps its guard bit if the point is not outside.
        lanes = point - box
        masked = info >> np.uint64(32)
        # All ones for a piece with several clauses: only then a word absent from the object excludes it.
        several = np.uint64(0) - ((info >> np.uint64(31)) & np.uint64(1))
        admitted = ((lanes & GUARDS) == GUARDS) & ((masked & absent & several) == np.uint64(0))
        unsure_box = np.uint64(((lanes - ONES) & GUARDS) != GUARDS) * UNSURE_BOX
        unsure_words = np.uint64(((masked & words) | several) != np.uint64(0)) * UNSURE_WORDS
        hits[waiting] = (info & PIECE_BITS) | unsure_box | unsure_words | tag
        waiting += admitted
    return waiting


@kernel
def _read_lists(list_count, block, segment, deleted, always_valid, lists, hits, unsure, max_pairs, keys, pairs):
    """Read the posting lists of a block and verify the hits; return the keys, perhaps in a new array, and the pairs.

    No list is read once there are more than `max_pairs`.
    """
    postings, room, waiting = segment.postings, len(hits), 0
    list_first, list_last, list_object, list_level = lists.first, lists.last, lists.object, lists.level
    column, row, words_of, list_pairs = block.column, block.row, block.words, lists.pairs
    for number in range(list_count):
        i, level = list_object[number], list_level[number]
        point, words = encode_point(column[i], row[i], level), words_of[i]
        first, last = list_first[number], list_last[number]
        list_pairs[number] = 0
        while first < last and pairs <= max_pairs:
            if waiting == room:
                # Room for the case that all hits match.
                keys = with_room(keys, pairs + room)
                pairs = verify(hits, waiting, lists, block, segment, deleted, always_valid, unsure, keys, pairs)
                waiting = 0
            part = min(last, first + room - waiting)
            waiting = _append_hits(postings, first, part, point, words, number, hits, waiting)
            first = part
    keys = with_room(keys, pairs + waiting)
    return keys, verify(hits, waiting, lists, block, segment, deleted, always_valid, unsure, keys, pairs)


@kernel
def match_segment(objects, segment, deleted, always_valid, counts, hit_buffer, max_pairs, keys):
    """Find the subscription keys of one segment that match each object; add to `counts`.

    Hits are verified when `hit_buffer` of them are waiting. `keys` int64[]: room for the keys; a larger array is made
    when it is full. Returns offsets int64[n+1] and keys int64[pairs] of the objects in Morton order. The search stops
    early once there are more than `max_pairs`.
    """
    candidates, matches = counts.candidates, counts.matches
    block = make_block(objects.term_offsets)
    depths, codes = len(segment.levels), objects.codes
    room = len(block.term) * depths + 1
    lists = PostingLists(
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int32),
        np.empty(room, np.int32), np.empty(room, np.int64),
    )  # fmt: skip
    probe_bucket, block_cells = np.empty(room, np.int64), np.empty((OBJECTS, depths), np.int64)
    cursors = segment.level_cells[:-1].copy()
    hits, unsure = np.empty(hit_buffer + 1, np.uint64)[:hit_buffer], np.empty(hit_buffer + 1, np.int32)
    offsets = np.zeros(len(codes) + 1, np.int64)
    start, pairs = 0, 0
    while start < len(codes) and pairs <= max_pairs:
        stop = load_block(objects, start, segment.term_table, block)
        _find_cells(codes, start, stop, segment, cursors, block_cells)
        kept = _probe_buckets(stop - start, block, block_cells, segment, probe_bucket, lists)
        list_count = _find_lists(kept, block, segment, probe_bucket, lists, candidates)
        keys, pairs = _read_lists(
            list_count, block, segment, deleted, always_valid, lists, hits, unsure, max_pairs, keys, pairs
        )
        for number in range(list_count):
            offsets[start + lists.object[number] + 1] += lists.pairs[number]
            matches[block.unit[lists.term[number]]] += lists.pairs[number]
        start = stop
    for i in range(len(codes)):
        offsets[i + 1] += offsets[i]
    return offsets, keys[:pairs]


@kernel
def append_lists(offsets, keys, following, merged):
    """Append the keys of each object to its others, at its next free place (`following` int64[objects], advanced)."""
    for i in range(len(following)):
        for k in range(offsets[i], offsets[i + 1]):
            merged[following[i]] = keys[k]
            following[i] += 1
