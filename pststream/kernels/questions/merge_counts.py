"""Merge the counts of terms of all segments, and keep the terms that may be among the k greatest of a question."""

import numpy as np

from pststream.kernels.compile import kernel


@kernel
def merge_counts(ids, counts, gaps, starts, stops, bounds, limits):
    """Merge the counts of segments, and keep for each question the terms that may have one of the k greatest.

    ids, counts, gaps  int64[n], int32[n], int32[n]: term ids, counts and gaps (kernels/questions/count_terms.py)
    starts, stops      int64[s,q]: slice of them of each segment and question
    bounds             int64[s,q]: greatest count of a term that is not in the slice
    limits             int64[q]: k of each question
    Returns whether the counts suffice for each question, bool[q] (others have no terms), offsets int64[q+1], and for
    each kept term its place in `ids` (one of its places), its least count, and whether this is exact.
    """
    questions = len(limits)
    offsets, enough = np.zeros(questions + 1, np.int64), np.zeros(questions, np.bool_)
    places, numbers, exact = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.bool_)
    total = 0
    slots = np.full(1024, -1, np.int64)
    for question in range(questions):
        most, bound = 0, 0
        for segment in range(len(starts)):
            most += stops[segment, question] - starts[segment, question]
            bound += bounds[segment, question]
        while 2 * most > len(slots):
            slots = np.full(2 * len(slots), -1, np.int64)
        firsts, sums = np.empty(most, np.int64), np.empty((most, 2), np.int64)
        size = _add_up(ids, counts, gaps, starts, stops, bounds, question, bound, slots, firsts, sums)
        _empty_slots(slots, ids, firsts[:size])
        least = _kth_greatest(sums[:size, 0].copy(), limits[question])
        enough[question] = bound == 0 or bound < least
        while total + size > len(places):
            places, numbers, exact = _longer(places, total), _longer(numbers, total), _longer(exact, total)
        for at in range(size):
            if enough[question] and sums[at, 0] + sums[at, 1] >= least:
                places[total], numbers[total], exact[total] = firsts[at], sums[at, 0], sums[at, 1] == 0
                total += 1
        offsets[question + 1] = total
    return enough, offsets, places[:total].copy(), numbers[:total].copy(), exact[:total].copy()


@kernel
def _longer(values, filled):
    longer = np.empty(2 * len(values), values.dtype)
    longer[:filled] = values[:filled]
    return longer


@kernel
def _add_up(ids, counts, gaps, starts, stops, bounds, question, bound, slots, firsts, sums):
    """Add up the counts, and the gaps, of each term of a question; return the number of terms."""
    mask, size = len(slots) - 1, 0
    for segment in range(len(starts)):
        for at in range(starts[segment, question], stops[segment, question]):
            slot = ids[at] & mask
            while slots[slot] >= 0 and ids[firsts[slots[slot]]] != ids[at]:
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                slots[slot] = size
                # Segments that do not have the term in their slices may have `bound` objects with it.
                firsts[size], sums[size, 0], sums[size, 1] = at, 0, bound
                size += 1
            sums[slots[slot], 0] += counts[at]
            sums[slots[slot], 1] += gaps[at] - bounds[segment, question]
    return size


@kernel
def _empty_slots(slots, ids, firsts):
    """Free the slots of these terms; all of them if there are many."""
    mask = len(slots) - 1
    if 8 * len(firsts) > len(slots):
        slots[:] = -1
        return
    for first in firsts:
        # A run of slots in use begins at the term's own or before it, and has no gap up to it.
        slot = ids[first] & mask
        while slots[slot] >= 0:
            slots[slot] = -1
            slot = (slot + 1) & mask


@kernel
def _kth_greatest(numbers, k):
    """Return the k-th greatest of positive numbers, 0 if there are fewer."""
    if len(numbers) < k:
        return 0
    return np.partition(numbers, len(numbers) - k)[len(numbers) - k]


@kernel
def find_ids(ids, starts, stops, questions, wanted):
    """Return where each segment has the wanted id of a question, -1 where it has not: int64[s,n].

    ids, starts, stops  see `merge_counts`; questions, wanted  int64[n]
    """
    places = np.full((len(starts), len(wanted)), -1, np.int64)
    for segment in range(len(starts)):
        for at in range(len(wanted)):
            for place in range(starts[segment, questions[at]], stops[segment, questions[at]]):
                if ids[place] == wanted[at]:
                    places[segment, at] = place
                    break
    return places


@kernel
def are_greatest(offsets, sums, limits):
    """Return whether each count is not less than the k-th greatest of its question: bool[n]."""
    kept = np.ones(len(sums), np.bool_)
    for question in range(len(limits)):
        start, stop = offsets[question], offsets[question + 1]
        least = _kth_greatest(sums[start:stop], limits[question])
        for at in range(start, stop):
            kept[at] = sums[at] >= least
    return kept


@kernel
def word_heads(word_offsets, words, terms):
    """Return the first eight bytes of the word of each term as a number, in the order of the words: uint64[n]."""
    heads = np.zeros(len(terms), np.uint64)
    for at in range(len(terms)):
        start, stop = word_offsets[terms[at]], word_offsets[terms[at] + 1]
        for place in range(8):
            byte = words[start + place] if start + place < stop else np.uint8(0)
            heads[at] = (heads[at] << np.uint64(8)) | np.uint64(byte)
    return heads


@kernel
def may_be_answers(offsets, sums, heads, limits):
    """Return whether each candidate may be among the k of its question, by its count, then by its word: bool[n].

    offsets, sums  the candidates of each question with their counts, none less than the k-th greatest
    heads          uint64[n] of their words: those of equal heads are left to the caller
    limits         int64[q]     k of each question
    """
    kept = np.ones(len(sums), np.bool_)
    for question in range(len(limits)):
        start, stop = offsets[question], offsets[question + 1]
        if stop - start <= limits[question]:
            continue
        least = sums[start:stop].min()
        tied = heads[start:stop][sums[start:stop] == least]
        wanted = limits[question] - (stop - start - len(tied))
        last = np.partition(tied, wanted - 1)[wanted - 1]
        for at in range(start, stop):
            kept[at] = sums[at] > least or heads[at] <= last
    return kept
