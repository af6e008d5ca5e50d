"""Verify hits: test clauses, exact boxes, shapes, validity and deletions; write the subscription keys of the matches.

`match_segment` calls `verify` when its buffer of hits is full, and at the end of a block of objects.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.matching.contains_point import contains_point
from pststream.kernels.matching.postings import (
    LAST_OF_CLAUSE,
    LAST_OF_PIECE,
    PIECE_BITS,
    TERM,
    term_bit,
)
from pststream.kernels.search import find

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
    for key in keys:
        place = _least_with(key, place, subscription_keys, key_order)
        while place < len(key_order) and subscription_keys[key_order[place]] == key:
            place += 1
            count += 1
    pieces, indexes = np.empty(count, np.int64), np.empty(count, np.int64)
    place, count = 0, 0
    for index in range(len(keys)):
        place = _least_with(keys[index], place, subscription_keys, key_order)
        while place < len(key_order) and subscription_keys[key_order[place]] == keys[index]:
            pieces[count], indexes[count] = key_order[place], index
            place += 1
            count += 1
    return pieces, indexes


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
    """Replace the unsure hits that do not match by NO_MATCH."""
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
    """Replace the hits that are not valid at the object's time, or whose shape does not contain it, by NO_MATCH."""
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
