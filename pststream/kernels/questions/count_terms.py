"""Count the objects of regions that have each term, merge the counts of segments, and keep the greatest."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.shapes.contains_point import contains_point
from pststream.kernels.questions.question_arrays import in_window
from pststream.kernels.questions.rows_in_regions import split_list


@kernel
def count_terms(objects, asked, regions, after, up_to, counts, touched):
    """Return the terms that objects of each question have: offsets int64[asked+1], terms int32[], counts int32[].

    objects, regions, after, up_to  see kernels/questions/question_arrays.py
    asked                           int64[]: the questions to answer, of those of the batch
    counts, touched                 int32[] of zeros, int32[]: for the work, at least as long as the segment has terms
    Terms are numbered within the segment, in no order.
    """
    size = 0
    offsets = np.zeros(len(asked) + 1, np.int64)
    terms, numbers, total = np.empty(1024, np.int32), np.empty(1024, np.int32), 0
    spans = np.empty((256, 3), np.int64)
    for place in range(len(asked)):
        question = asked[place]
        for piece in range(regions.piece_offsets[question], regions.piece_offsets[question + 1]):
            box = regions.boxes[piece]
            spans, parts = split_list(objects.codes, objects.postings, False, 0, len(objects.codes), box, spans)
            size = _count_spans(
                objects, regions, piece, spans[:parts], after[question], up_to[question], counts, touched, size
            )
        while total + size > len(terms):
            longer, wider = np.empty(2 * len(terms), np.int32), np.empty(2 * len(terms), np.int32)
            longer[:total], wider[:total] = terms[:total], numbers[:total]
            terms, numbers = longer, wider
        for at in range(size):
            terms[total + at], numbers[total + at] = touched[at], counts[touched[at]]
            counts[touched[at]] = 0
        total += size
        size = 0
        offsets[place + 1] = total
    return offsets, terms[:total].copy(), numbers[:total].copy()


@kernel
def _count_spans(objects, regions, piece, spans, after, up_to, counts, touched, size):
    """Add the terms of the objects of the spans that count to `counts`; list those that were 0 in `touched`."""
    box, test = regions.boxes[piece], regions.tests[piece]
    test_start, test_stop = regions.number_offsets[piece], regions.number_offsets[piece + 1]
    after_ts, after_key, up_to_ts, up_to_key = after[0], after[1], up_to[0], up_to[1]
    for span in range(len(spans)):
        inside = spans[span, 2] == 1
        for row in range(spans[span, 0], spans[span, 1]):
            if not in_window(objects.times[row], objects.keys[row], after_ts, after_key, up_to_ts, up_to_key):
                continue
            lon, lat = objects.places[row, 0], objects.places[row, 1]
            if not inside and not (box[0] <= lon and lon <= box[2] and box[1] <= lat and lat <= box[3]):
                continue
            if test and not contains_point(test, regions.numbers, test_start, test_stop, lon, lat):
                continue
            for own in range(objects.offsets[row], objects.offsets[row + 1]):
                term = objects.row_terms[own]
                if counts[term] == 0:
                    touched[size] = term
                    size += 1
                counts[term] += 1
    return size


@kernel
def merge_counts(ids, counts, starts, stops, limits):
    """Merge the counts of segments, and keep for each question those that are not less than its k-th greatest.

    ids, counts    int64[n], int32[n]   term ids and counts of all segments
    starts, stops  int64[s,q]    slice of them of each segment and question
    limits         int64[q]      k of each question
    Returns offsets int64[q+1], and for each kept term its place in `ids` (one of its places) and its count, int64[].
    """
    questions = len(limits)
    offsets = np.zeros(questions + 1, np.int64)
    places, numbers, total = np.empty(1024, np.int64), np.empty(1024, np.int64), 0
    slots = np.full(1024, -1, np.int64)
    for question in range(questions):
        most = 0
        for segment in range(len(starts)):
            most += stops[segment, question] - starts[segment, question]
        while 2 * most > len(slots):
            slots = np.full(2 * len(slots), -1, np.int64)
        mask = len(slots) - 1
        firsts, sums, size = np.empty(most, np.int64), np.empty(most, np.int64), 0
        for segment in range(len(starts)):
            start, stop = starts[segment, question], stops[segment, question]
            if stop - start == most:
                # Terms of one segment are distinct.
                for at in range(start, stop):
                    firsts[size], sums[size] = at, counts[at]
                    size += 1
                continue
            for at in range(start, stop):
                slot = ids[at] & mask
                while slots[slot] >= 0 and ids[firsts[slots[slot]]] != ids[at]:
                    slot = (slot + 1) & mask
                if slots[slot] < 0:
                    slots[slot] = size
                    firsts[size], sums[size] = at, 0
                    size += 1
                sums[slots[slot]] += counts[at]
        _empty_slots(slots, ids, firsts[:size])
        least = _kth_greatest(sums[:size], limits[question])
        for at in range(size):
            if sums[at] < least:
                continue
            if total == len(places):
                longer, wider = np.empty(2 * total, np.int64), np.empty(2 * total, np.int64)
                longer[:total], wider[:total] = places, numbers
                places, numbers = longer, wider
            places[total], numbers[total] = firsts[at], sums[at]
            total += 1
        offsets[question + 1] = total
    return offsets, places[:total].copy(), numbers[:total].copy()


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

    offsets, sums  the candidates of each question with their counts, as `merge_counts` returns them
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
