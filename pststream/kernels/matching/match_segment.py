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
from pststream.kernels.matching.index_cells import MAX_LEVEL
from pststream.kernels.matching.object_block import OBJECTS, load_block, make_block
from pststream.kernels.matching.posting_keys import HIGH, LOW, find_far_posting, place_bits, spot_scale
from pststream.kernels.matching.postings import GUARDS, ONES, PIECE_BITS, encode_point
from pststream.kernels.matching.verify import LIST_SHIFT, UNSURE_BOX, UNSURE_WORDS, PostingLists, verify
from pststream.kernels.search import gallop

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
        prefetch(buckets, bucket + 1)
        word = buckets[bucket, 0]
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
        while word >> bits < wanted and key + 1 < last_key:
            key += 1
            word = np.int64(keys[key])
        place, next_place = word & far, np.int64(keys[min(key + 1, greatest_key)]) & far
        begin, next_begin = base + place, base + next_place
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
        lanes = point - box
        masked = info >> np.uint64(32)
        several = np.uint64(0) - ((info >> np.uint64(31)) & np.uint64(1))
        admitted = ((lanes & GUARDS) == GUARDS) & ((masked & absent & several) == np.uint64(0))
        unsure_box = np.uint64(((lanes - ONES) & GUARDS) != GUARDS) * UNSURE_BOX
        unsure_words = np.uint64(((masked & words) | several) != np.uint64(0)) * UNSURE_WORDS
        hits[waiting] = (info & PIECE_BITS) | unsure_box | unsure_words | tag
        waiting += admitted
    return waiting


@kernel
def _wider(array, least):
    """Return a copy of an array with twice the room, at least `least`."""
    wider = np.empty(max(2 * len(array), least), array.dtype)
    wider[: len(array)] = array
    return wider


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
                if pairs + room > len(keys):
                    keys = _wider(keys, pairs + room)
                pairs = verify(hits, waiting, lists, block, segment, deleted, always_valid, unsure, keys, pairs)
                waiting = 0
            part = min(last, first + room - waiting)
            waiting = _append_hits(postings, first, part, point, words, number, hits, waiting)
            first = part
    if pairs + waiting > len(keys):
        keys = _wider(keys, pairs + waiting)
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
