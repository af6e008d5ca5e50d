"""Count the objects of regions that have each term, in one segment.

Cells that lie in the region are counted by their lists of frequent terms (kernels/questions/listed_counts.py), all
other rows one by one. Then the count of a term may be too small where a list does not have the term: at most by the
bound of this list. The sum of these bounds is the gap of the count; a count without a gap is exact.

Terms of too few objects are left out where rows are counted one by one (kernels/questions/term_tiers.py).
"""

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.matching.contains_point import contains_point
from pststream.kernels.questions.listed_counts import (
    LEFT_FROM,
    LEFT_TO,
    PART_COLUMNS,
    PIECE,
    add_lists,
    choose_lists,
    split_region,
)
from pststream.kernels.questions.packed_numbers import gallop_number, number_at
from pststream.kernels.questions.question_arrays import in_window
from pststream.kernels.questions.rows_in_regions import SPAN_COLUMNS
from pststream.kernels.questions.term_tiers import terms_to_count

EMITTED_SHARE = 8
"""Counts are returned from the k-th greatest of the segment divided by this on."""

COUNTED_SHARE = 4
"""Terms are counted that have more objects than the k-th greatest count so far divided by this."""

SAMPLE_SHARE = 4
"""Once one in this many rows is counted, the k-th greatest count says which other terms to leave out."""

LEFT_OUT = 64
"""Terms that have fewer objects than the rows of the region divided by this and by k (+ 16) are left out."""

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
    counts      int32[terms + 1,2] of zeros, for the work: count, and bounds of the lists that have the term
    touched     int32[terms + 1], for the work
    Returns offsets int64[answered+1], terms int32[] (numbered within the segment, in no order), counts int32[],
    gaps int32[], and the greatest count of a term that is not returned, int64[answered].
    """
    offsets, bounds = np.zeros(len(asked) + 1, np.int64), np.zeros(len(asked), np.int64)
    terms, total = np.empty((4096, 3), np.int32), 0
    spans, split = np.empty((256, SPAN_COLUMNS), np.int64), np.empty((256, PART_COLUMNS), np.int64)
    block = np.empty(BLOCK, np.int64)
    for place in range(len(asked)):
        question = asked[place]
        size, bound, rare = 0, 0, 0
        spans, split, number = split_region(objects, regions, question, spans, split)
        parts, some_keys = split[:number], up_to[question, 1] < last_key
        if not complete:
            rare = _rows_of(parts) // (LEFT_OUT * (limits[question] + 16))
            if not some_keys:
                parts, chosen = choose_lists(
                    objects, lists, regions, split, number, after[question, 0], up_to[question, 0]
                )
                size, bound = add_lists(lists, chosen, counts, touched)
        size, kept, left_out = _count_parts(
            objects, regions, parts, after[question], up_to[question], some_keys, tiers, limits[question], rare,
            complete, block, counts, touched, size,
        )  # fmt: skip
        least = 1 if complete else max(1, _kth_count(counts, touched, size, limits[question]) // EMITTED_SHARE)
        terms, total = _emit(terms, total, counts, touched[:size], least, kept, bound)
        offsets[place + 1], bounds[place] = total, max(least - 1 + bound, left_out)
        if total >= room:
            offsets, bounds = offsets[: place + 2], bounds[: place + 1]
            break
    return offsets, terms[:total, 0].copy(), terms[:total, 1].copy(), terms[:total, 2].copy(), bounds


@kernel
def _count_parts(
    objects, regions, parts, after, up_to, some_keys, tiers, k, rare, complete, rows, counts, touched, size
):
    """Add the terms of the rows of parts that count to `counts`, but those of too few objects, unless `complete`.

    rare  terms of at most so many objects are left out, and those of more that cannot have a count to return
    Returns the number of touched terms, of terms that are counted, and the greatest number of objects of another.
    """
    kept, left_out = terms_to_count(tiers, max(rare, _kth_count(counts, touched, size, k) // COUNTED_SHARE))
    sample, counted = _rows_of(parts) // SAMPLE_SHARE, 0
    sampled = complete or sample < BLOCK
    for part in parts:
        if not sampled and counted >= sample:
            counts[kept] = 0
            kept, left_out = terms_to_count(tiers, max(rare, _kth_count(counts, touched, size, k) // COUNTED_SHARE))
            sampled = True
        counted += part[1] - part[0]
        size = _count_rows(objects, regions, part, after, up_to, some_keys, kept, rows, counts, touched, size)
    counts[kept] = 0
    return size, kept, left_out


@kernel
def _rows_of(parts):
    """Return the number of rows of some parts."""
    rows = 0
    for part in parts:
        rows += part[1] - part[0]
    return rows


@kernel
def _emit(terms, total, counts, touched, least, kept, bound):
    """Append the touched terms before `kept` whose counts are `least` or more; set all counts to zero.

    bound  the sum of the bounds of all lists that were added
    Returns the array of terms, their counts and gaps, which may be longer, and how many it has.
    """
    while total + len(touched) > len(terms):
        longer = np.empty((2 * len(terms), 3), np.int32)
        longer[:total] = terms[:total]
        terms = longer
    for term in touched:
        if term < kept and counts[term, 0] >= least:
            terms[total, 0], terms[total, 1], terms[total, 2] = term, counts[term, 0], bound - counts[term, 1]
            total += 1
        counts[term, 0], counts[term, 1] = 0, 0
    return terms, total


@kernel
def _count_rows(objects, regions, part, after, up_to, some_keys, kept, rows, counts, touched, size):
    """Add the terms of the rows of a part that count to `counts`; list those that were 0 in `touched`.

    part       see kernels/questions/listed_counts.py
    some_keys  whether objects of the segment may have keys above that of `up_to`
    kept       the place in `counts` for all terms from this on
    rows       int64[BLOCK], for the work
    """
    # What is not 0 is not listed.
    counts[kept, 0] = 1
    for begin in range(part[0], part[1], BLOCK):
        number = 0
        for row in range(begin, min(begin + BLOCK, part[1])):
            ts = objects.times[row]
            rows[number] = row
            number += (ts >= after[0]) & (ts <= up_to[0]) & ((ts < part[LEFT_FROM]) | (ts >= part[LEFT_TO]))
        number = _keep_rows(objects, regions, part[PIECE], rows[:number], part[2] == 1, after, up_to, some_keys)
        size = _add_terms(objects, rows[:number], kept, counts, touched, size)
    return size


@leaf
def _add_terms(objects, rows, kept, counts, touched, size):
    """Add the terms of rows to `counts`; list those that were 0 in `touched`; return how many it has."""
    for row in rows:
        for own in range(objects.offsets[row], objects.offsets[row + 1]):
            # Without branches, the processor waits for several counts at a time.
            term = min(number_at(objects.row_terms, own), kept)
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
def count_objects(objects, segment_bounds, questions, terms, regions, after, up_to):
    """Return the number of objects of each question that have a term: int64[n].

    segment_bounds    int64[4]: least and greatest ts, least and greatest key of the segment
    questions, terms  int64[n], int32[n]: the pairs of a question of the batch, ascending, and a term of the segment
    objects, regions, after, up_to  see kernels/questions/question_arrays.py
    """
    numbers = np.zeros(len(questions), np.int64)
    spans, parts = np.empty((256, SPAN_COLUMNS), np.int64), np.empty((256, PART_COLUMNS), np.int64)
    size, split = 0, -1
    for pair in range(len(questions)):
        question = questions[pair]
        if question != split:
            spans, parts, size = split_region(objects, regions, question, spans, parts)
            split = question
        everything = (
            after[question, 0] < segment_bounds[0]
            and up_to[question, 0] >= segment_bounds[1]
            and up_to[question, 1] >= segment_bounds[3]
        )
        low, high = objects.posting_offsets[terms[pair]], objects.posting_offsets[terms[pair] + 1]
        end = low
        for part in range(size):
            # Most parts come after the last one.
            continues = part and parts[part, 0] >= parts[part - 1, 1]
            begin = gallop_number(objects.postings, end if continues else low, high, parts[part, 0])
            end = gallop_number(objects.postings, begin, high, parts[part, 1])
            if everything and parts[part, 2] and not regions.tests[parts[part, PIECE]]:
                numbers[pair] += end - begin
            else:
                numbers[pair] += _count_postings(
                    objects, regions, parts[part], begin, end, after[question], up_to[question]
                )
    return numbers


@kernel
def _count_postings(objects, regions, part, begin, end, after, up_to):
    """Return the number of rows of the postings [begin, end), which lie in a part, that count."""
    piece, inside = part[PIECE], part[2] == 1
    box, test = regions.boxes[piece], regions.tests[piece]
    test_start, test_stop = regions.number_offsets[piece], regions.number_offsets[piece + 1]
    number = 0
    for place in range(begin, end):
        row = number_at(objects.postings, place)
        if not in_window(objects.times[row], objects.keys[row], after[0], after[1], up_to[0], up_to[1]):
            continue
        lon, lat = objects.places[row, 0], objects.places[row, 1]
        if not inside and not (box[0] <= lon and lon <= box[2] and box[1] <= lat and lat <= box[3]):
            continue
        number += not test or contains_point(test, regions.numbers, test_start, test_stop, lon, lat)
    return number
