"""Build object segments: number terms, list their objects, find their words, copy texts, find the newest objects."""

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.parsing.texts import hash_word
from pststream.kernels.sort_and_search import find, with_room

_EMPTY = np.int32(-1)

AHEAD = 16
"""Ids, or lists, between one that is read and one that is fetched."""


@kernel
def number_terms(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct ids in the order of their first places, and the number of each id among them.

    ids  int64[m]
    Returns int64[terms], int32[m].
    """
    bits = 12
    slots = np.full(1 << bits, _EMPTY, np.int32)
    distinct = np.empty(1 << (bits - 1), np.int64)
    numbers = np.empty(len(ids), np.int32)
    count = 0
    for place in range(len(ids)):
        if 2 * count >= len(slots):
            bits += 1
            slots = np.full(1 << bits, _EMPTY, np.int32)
            distinct = with_room(distinct, 1 << (bits - 1))
            for number in range(count):
                slots[_slot(slots, distinct, distinct[number])] = number
        # Begin to read what ids further on need: first the slot, then the id that is in it.
        if place + AHEAD < len(ids):
            prefetch(slots, ids[place + AHEAD] & (len(slots) - 1))
            number = slots[ids[place + AHEAD // 2] & (len(slots) - 1)]
            if number != _EMPTY:
                prefetch(distinct, number)
        slot = _slot(slots, distinct, ids[place])
        if slots[slot] == _EMPTY:
            slots[slot] = count
            distinct[count] = ids[place]
            count += 1
        numbers[place] = slots[slot]
    return distinct[:count].copy(), numbers


@kernel
def _slot(slots: np.ndarray, distinct: np.ndarray, wanted: int) -> int:
    """Return the slot of an id, or the free one where it belongs; ids are hashes already."""
    mask = len(slots) - 1
    slot = wanted & mask
    while slots[slot] != _EMPTY and distinct[slots[slot]] != wanted:
        slot = (slot + 1) & mask
    return slot


@kernel
def gather_rows(order: np.ndarray, offsets: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return lists in another order: their offsets int32[n+1] and values; list i is the old list order[i]."""
    moved_offsets = np.empty(len(order) + 1, np.int32)
    moved = np.empty(len(values), np.int32)
    at = 0
    for row in range(len(order)):
        if row + 2 * AHEAD < len(order):
            prefetch(offsets, order[row + 2 * AHEAD])
            prefetch(values, offsets[order[row + AHEAD]])
        moved_offsets[row] = at
        for place in range(offsets[order[row]], offsets[order[row] + 1]):
            moved[at] = values[place]
            at += 1
    moved_offsets[len(order)] = at
    return moved_offsets, moved[:at]


@kernel
def find_words(
    rows: np.ndarray,
    data: np.ndarray,
    text_offsets: np.ndarray,
    folded: np.ndarray,
    offsets: np.ndarray,
    row_terms: np.ndarray,
    terms: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the word of each term, as UTF-8: offsets int64[terms+1] and bytes uint8[]; empty where no text has it.

    rows               int64[r]    rows whose texts together have every term
    data               uint8[]     their texts as `distinct_terms` takes them; each byte is folded by `folded`
    text_offsets       int64[r+1]  slice of `data` of each text
    offsets, row_terms             the terms of each row of the segment, as `gather_rows` returns them
    terms              int64[terms]
    """
    begins, ends = np.zeros(len(terms), np.int64), np.zeros(len(terms), np.int64)
    text = np.empty(len(data), np.uint8)
    for place in range(len(data)):
        text[place] = folded[data[place]]
    ids = np.empty(64, np.int64)
    for at in range(len(rows)):
        row, begin = rows[at], text_offsets[at]
        first, size = offsets[row], offsets[row + 1] - offsets[row]
        if size > len(ids):
            ids = np.empty(2 * size, np.int64)
        for own in range(size):
            ids[own] = terms[row_terms[first + own]]
        for place in range(text_offsets[at], text_offsets[at + 1] + 1):
            if place < text_offsets[at + 1] and text[place] != 0:
                continue
            if place > begin:
                wanted = hash_word(text[begin:place])
                for own in range(size):
                    if ids[own] == wanted:
                        term = row_terms[first + own]
                        if ends[term] == 0:
                            begins[term], ends[term] = begin, place
            begin = place + 1
    word_offsets = np.zeros(len(terms) + 1, np.int64)
    for term in range(len(terms)):
        word_offsets[term + 1] = word_offsets[term] + ends[term] - begins[term]
    words = np.empty(word_offsets[len(terms)], np.uint8)
    for term in range(len(terms)):
        words[word_offsets[term] : word_offsets[term + 1]] = text[begins[term] : ends[term]]
    return word_offsets, words


@kernel
def find_terms(terms: np.ndarray, tiers: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the place of each wanted id among `terms`, -1 where it is absent: int32[n].

    terms  int64[T], ascending within each tier
    tiers  int64[t+1]: tier i is terms[tiers[i]:tiers[i + 1]]
    """
    places = np.full(len(wanted), -1, np.int32)
    for at in range(len(wanted)):
        for tier in range(len(tiers) - 1):
            place = find(terms, tiers[tier], tiers[tier + 1], wanted[at])
            if place < tiers[tier + 1] and terms[place] == wanted[at]:
                places[at] = place
                break
    return places


# Copy texts of some rows of a segment to their places among the texts of all segments.


@leaf
def measure_texts(offsets: np.ndarray, rows: np.ndarray, places: np.ndarray, lengths: np.ndarray) -> None:
    """Write the bytes of each text to lengths[place]: int64[].

    offsets  int[n+1]  slice of each text of the segment
    rows, places  int64[m]
    """
    for at in range(len(rows)):
        if at + AHEAD < len(rows):
            prefetch(offsets, rows[at + AHEAD])
        lengths[places[at]] = offsets[rows[at] + 1] - offsets[rows[at]]


@leaf
def copy_texts(
    offsets: np.ndarray, texts: np.ndarray, rows: np.ndarray, places: np.ndarray, starts: np.ndarray, copied: np.ndarray
) -> None:
    """Copy each text (uint8[]) to copied[starts[place]:]; the other arguments are those of `measure_texts`."""
    for at in range(len(rows)):
        if at + AHEAD < len(rows):
            prefetch(texts, offsets[rows[at + AHEAD]])
        target = starts[places[at]]
        for byte in range(offsets[rows[at]], offsets[rows[at] + 1]):
            copied[target] = texts[byte]
            target += 1


# Find the greatest time, and the N-th most recent object, among objects that a version of the table has.


@kernel
def greatest_time(times: np.ndarray, keys: np.ndarray, up_to_key: int, least: int) -> int:
    """Return the greatest ts of objects with key <= up_to_key; `least` if it is not above that."""
    greatest = least
    for row in range(len(times)):
        if keys[row] <= up_to_key and times[row] > greatest:
            greatest = times[row]
    return greatest


@kernel
def count_by_time(
    times: np.ndarray, keys: np.ndarray, up_to_key: int, low: int, high: int, width: int, counts: np.ndarray
) -> None:
    """Add the objects with low <= ts <= high and key <= up_to_key to counts[(ts - low) // width]; int64[]."""
    for row in range(len(times)):
        if low <= times[row] <= high and keys[row] <= up_to_key:
            counts[(times[row] - low) // width] += 1


@kernel
def keys_at(times: np.ndarray, keys: np.ndarray, up_to_key: int, ts: int) -> np.ndarray:
    """Return the keys of objects with this ts and key <= up_to_key: int64[]."""
    count = 0
    for row in range(len(times)):
        count += times[row] == ts and keys[row] <= up_to_key
    chosen = np.empty(count, np.int64)
    count = 0
    for row in range(len(times)):
        if times[row] == ts and keys[row] <= up_to_key:
            chosen[count] = keys[row]
            count += 1
    return chosen
