"""Count the objects of regions that have each term, in one segment.

Rows of the region are counted one by one. Cells that lie in the region have lists of their frequent terms, by time
slice (kernels/questions/frequent_terms.py): the lists of slices inside the window replace their rows. Then the count of
a term may be too small where a list does not have the term: at most by the bound of this list. The sum of these bounds
is the gap of the count; a count without a gap is exact.

Large regions leave out terms of few objects (kernels/questions/term_tiers.py).
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.matching.shapes.contains_point import contains_point
from pststream.kernels.questions.packed_numbers import number_at
from pststream.kernels.questions.place_codes import LEVELS
from pststream.kernels.questions.question_arrays import in_window
from pststream.kernels.questions.rows_in_regions import SPAN_COLUMNS, split_list
from pststream.kernels.questions.term_tiers import terms_to_count
from pststream.kernels.search import find

EMITTED_SHARE = 8
"""Counts are returned from the k-th greatest of the segment divided by this on."""

LEFT_OUT = 64
"""A region leaves out terms that have fewer objects than its rows divided by this and by k (+ 16)."""

BLOCK = 256
"""Rows whose terms are fetched at a time."""

SMALL = 256
"""Counts below this are ordered by a histogram."""


@kernel
def count_terms(objects, lists, tiers, last_key, asked, regions, after, up_to, limits, complete, room, counts, touched):
    """Return the terms with the greatest counts of each question.

    objects, regions, after, up_to  see kernels/questions/question_arrays.py
    lists       see kernels/questions/frequent_terms.py
    tiers       int64[t+1]: see kernels/questions/term_tiers.py
    last_key    greatest key of the segment
    asked       int64[]: the questions to answer, of those of the batch
    limits      int64[q]: k of each question
    complete    whether to count all rows and return all terms
    room        the kernel stops after the question with which it has returned this many terms
    counts      int32[terms,2] of zeros, for the work: count, and bounds of the lists that have the term
    touched     int32[terms + 1], for the work
    Returns offsets int64[answered+1], terms int32[] (numbered within the segment, in no order), counts int32[],
    gaps int32[], and the greatest count of a term that is not returned, int64[answered].
    """
    offsets, bounds = np.zeros(len(asked) + 1, np.int64), np.zeros(len(asked), np.int64)
    terms, total = np.empty((4096, 3), np.int32), 0
    spans, block = np.empty((256, SPAN_COLUMNS), np.int64), np.empty(BLOCK, np.int64)
    for place in range(len(asked)):
        question = asked[place]
        size, bound = 0, 0
        first, stop, kept, left_out = 0, 0, tiers[-1], 0
        if not complete:
            rows, spans = _rows_of_region(objects, regions, question, spans)
            kept, left_out = terms_to_count(tiers, rows // (LEFT_OUT * (limits[question] + 16)))
            if up_to[question, 1] >= last_key:
                first, stop = _slices_inside(lists.slice_times, after[question, 0], up_to[question, 0])
        for piece in range(regions.piece_offsets[question], regions.piece_offsets[question + 1]):
            box = regions.boxes[piece]
            spans, parts = split_list(objects.codes, objects.postings, False, 0, len(objects.codes), box, spans)
            listed = stop > first and regions.tests[piece] == 0
            if listed:
                spans, parts = _divide_cells(objects.codes, spans, parts)
            for part in range(parts):
                used = -1
                if listed and spans[part, 2] == 1:
                    used = _place_of(lists.cells, spans[part, 3])
                if used >= 0:
                    size, bound = _add_lists(lists, used, first, stop, kept, counts, touched, size, bound)
                if used < 0 or stop - first < len(lists.slice_times) - 1:
                    between = (lists.slice_times[first], lists.slice_times[stop]) if used >= 0 else (0, 0)
                    size = _count_rows(
                        objects, regions, piece, spans[part, 0], spans[part, 1], spans[part, 2] == 1,
                        after[question], up_to[question], up_to[question, 1] < last_key, between, kept, block,
                        counts, touched, size,
                    )  # fmt: skip
        least = 1 if complete else max(1, _kth_count(counts, touched, size, limits[question]) // EMITTED_SHARE)
        while total + size > len(terms):
            longer = np.empty((2 * len(terms), 3), np.int32)
            longer[:total] = terms[:total]
            terms = longer
        for at in range(size):
            term = touched[at]
            if counts[term, 0] >= least:
                terms[total, 0], terms[total, 1], terms[total, 2] = term, counts[term, 0], bound - counts[term, 1]
                total += 1
            counts[term, 0], counts[term, 1] = 0, 0
        offsets[place + 1], bounds[place] = total, max(least - 1 + bound, left_out)
        if total >= room:
            offsets, bounds = offsets[: place + 2], bounds[: place + 1]
            break
    return offsets, terms[:total, 0].copy(), terms[:total, 1].copy(), terms[:total, 2].copy(), bounds


@kernel
def _rows_of_region(objects, regions, question, spans):
    """Return the number of rows of the cells that a region touches, and the array of spans, which may be longer."""
    rows = 0
    for piece in range(regions.piece_offsets[question], regions.piece_offsets[question + 1]):
        box = regions.boxes[piece]
        spans, parts = split_list(objects.codes, objects.postings, False, 0, len(objects.codes), box, spans)
        for part in range(parts):
            rows += spans[part, 1] - spans[part, 0]
    return rows, spans


@kernel
def _slices_inside(slice_times, after_ts, up_to_ts):
    """Return the first slice whose objects all have after_ts < ts <= up_to_ts, and the one after the last."""
    first, stop = 0, len(slice_times) - 1
    while first < stop and slice_times[first] <= after_ts:
        first += 1
    while stop > first and slice_times[stop] - 1 > up_to_ts:
        stop -= 1
    return first, stop


@kernel
def _divide_cells(codes, spans, parts):
    """Divide the spans inside the region whose cells are of odd levels, or the world: these have no lists."""
    longer = np.empty((16 * parts, SPAN_COLUMNS), np.int64)
    size = 0
    for part in range(parts):
        level, cell = spans[part, 3] >> 32, spans[part, 3] & 0xFFFFFFFF
        if spans[part, 2] == 0 or (level > 0 and level % 2 == 0):
            longer[size] = spans[part]
            size += 1
            continue
        below = 2 if level == 0 else level + 1
        low, shift, first = spans[part, 0], 2 * (LEVELS - below), cell << 2 * (below - level)
        for child in range(first, first + (1 << 2 * (below - level))):
            high = find(codes, low, spans[part, 1], (child + 1) << shift)
            longer[size, 0], longer[size, 1], longer[size, 2], longer[size, 3] = low, high, 1, below << 32 | child
            size += 1
            low = high
    return longer, size


@kernel
def _place_of(cells, wanted):
    """Return the place of a cell among ascending `cells`, -1 if it has no lists."""
    place = find(cells, 0, len(cells), wanted)
    return place if place < len(cells) and cells[place] == wanted else -1


@kernel
def _add_lists(lists, cell, first, stop, kept, counts, touched, size, bound):
    """Add the lists of a cell and of the slices [first, stop); return the touched terms and the sum of bounds."""
    slices = len(lists.slice_times) - 1
    for number in range(cell * slices + first, cell * slices + stop):
        own = lists.list_bounds[number]
        bound += own
        for place in range(lists.list_offsets[number], lists.list_offsets[number + 1]):
            term = lists.list_terms[place]
            if term >= kept:
                continue
            if counts[term, 0] == 0:
                touched[size] = term
                size += 1
            counts[term, 0] += lists.list_counts[place]
            counts[term, 1] += own
    return size, bound


@kernel
def _count_rows(
    objects, regions, piece, low, high, inside, after, up_to, some_keys, between, kept, rows, counts, touched, size
):  # fmt: skip
    """Add the terms of the rows [low, high) that count to `counts`; list those that were 0 in `touched`.

    some_keys  whether objects of the segment may have keys above that of `up_to`
    between    rows with between[0] <= ts < between[1] are left out
    kept       terms from this on are not counted
    rows       int64[BLOCK], for the work
    """
    for begin in range(low, high, BLOCK):
        number = 0
        for row in range(begin, min(begin + BLOCK, high)):
            ts = objects.times[row]
            rows[number] = row
            number += (ts >= after[0]) & (ts <= up_to[0]) & ((ts < between[0]) | (ts >= between[1]))
        number = _keep_rows(objects, regions, piece, rows[:number], inside, after, up_to, some_keys)
        for at in range(number):
            for own in range(objects.offsets[rows[at]], objects.offsets[rows[at] + 1]):
                term = number_at(objects.row_terms, own)
                if term >= kept:
                    continue
                # Without a branch on the count, the processor waits for several counts at a time.
                touched[size] = term
                size += counts[term, 0] == 0
                counts[term, 0] += 1
    return size


@kernel
def _keep_rows(objects, regions, piece, rows, inside, after, up_to, some_keys):
    """Move the rows that count to the front, and begin to fetch their terms; return their number."""
    box, test = regions.boxes[piece], regions.tests[piece]
    test_start, test_stop = regions.number_offsets[piece], regions.number_offsets[piece + 1]
    size = 0
    for row in rows:
        ts = objects.times[row]
        if (some_keys or ts == after[0]) and not in_window(
            ts, objects.keys[row], after[0], after[1], up_to[0], up_to[1]
        ):
            continue
        if not inside or test:
            lon, lat = objects.places[row, 0], objects.places[row, 1]
            if not inside and not (box[0] <= lon and lon <= box[2] and box[1] <= lat and lat <= box[3]):
                continue
            if test and not contains_point(test, regions.numbers, test_start, test_stop, lon, lat):
                continue
        prefetch(objects.row_terms, objects.offsets[row])
        rows[size] = row
        size += 1
    return size


@kernel
def _kth_count(counts, touched, size, k):
    """Return the k-th greatest count of the touched terms, 0 if there are fewer."""
    if size < k:
        return 0
    histogram = np.zeros(SMALL, np.int64)
    for at in range(size):
        histogram[min(counts[touched[at], 0], SMALL - 1)] += 1
    if histogram[SMALL - 1] >= k:
        large = np.empty(histogram[SMALL - 1], np.int32)
        filled = 0
        for at in range(size):
            if counts[touched[at], 0] >= SMALL - 1:
                large[filled] = counts[touched[at], 0]
                filled += 1
        return int(np.partition(large, filled - k)[filled - k])
    number = SMALL - 1
    above = histogram[number]
    while above < k:
        number -= 1
        above += histogram[number]
    return number


@kernel
def count_objects(objects, questions, terms, regions, after, up_to):
    """Return the number of objects of each question that have a term: int64[n].

    questions, terms  int64[n], int32[n]: the pairs of a question of the batch and a term of the segment
    objects, regions, after, up_to  see kernels/questions/question_arrays.py
    """
    numbers = np.zeros(len(questions), np.int64)
    spans = np.empty((256, SPAN_COLUMNS), np.int64)
    for pair in range(len(questions)):
        question, term = questions[pair], terms[pair]
        low, high = objects.posting_offsets[term], objects.posting_offsets[term + 1]
        after_ts, after_key, up_to_ts, up_to_key = (
            after[question, 0], after[question, 1], up_to[question, 0], up_to[question, 1],
        )  # fmt: skip
        for piece in range(regions.piece_offsets[question], regions.piece_offsets[question + 1]):
            box, test = regions.boxes[piece], regions.tests[piece]
            test_start, test_stop = regions.number_offsets[piece], regions.number_offsets[piece + 1]
            spans, parts = split_list(objects.codes, objects.postings, True, low, high, box, spans)
            for part in range(parts):
                inside = spans[part, 2] == 1
                for place in range(spans[part, 0], spans[part, 1]):
                    row = number_at(objects.postings, place)
                    if not in_window(objects.times[row], objects.keys[row], after_ts, after_key, up_to_ts, up_to_key):
                        continue
                    lon, lat = objects.places[row, 0], objects.places[row, 1]
                    if not inside and not (box[0] <= lon and lon <= box[2] and box[1] <= lat and lat <= box[3]):
                        continue
                    numbers[pair] += not test or contains_point(test, regions.numbers, test_start, test_stop, lon, lat)
    return numbers
