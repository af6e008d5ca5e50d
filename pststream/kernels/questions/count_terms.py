"""Count the objects of regions that have each term, segment by segment, and merge the counts of all segments.

Cells that lie in the region are counted by their lists of frequent terms (kernels/questions/frequent_terms.py), all
other rows one by one. Then the count of a term may be too small where a list does not have the term: at most by the
bound of this list. The sum of these bounds is the gap of the count; a count without a gap is exact.

Terms of too few objects are left out where rows are counted one by one.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.matching.contains_point import contains_point
from pststream.kernels.questions.codes import LEVELS, gallop_number, number_at
from pststream.kernels.questions.frequent_terms import DIVISION_SHIFT, DIVISIONS, SLICES, FrequentTerms, terms_to_count
from pststream.kernels.questions.question_arrays import ObjectArrays, in_box, in_window, window_of
from pststream.kernels.questions.rows_in_regions import SPAN_COLUMNS, split_list
from pststream.kernels.sort_and_search import find, with_room

# Count cells that lie in a region by their lists, and leave the other rows to be counted one by one.

PIECE, LEFT_FROM, LEFT_TO = SPAN_COLUMNS, SPAN_COLUMNS + 1, SPAN_COLUMNS + 2
"""Columns of a part after those of a span: its piece; rows with LEFT_FROM <= ts < LEFT_TO are not to be counted."""

PART_COLUMNS = SPAN_COLUMNS + 3

LIST_COLUMNS = 5
"""Columns of chosen lists: place of the cell, slices from and up to which they count (of the last division), and the
first row of the cell and the one after the last."""


@kernel
def split_region(objects, regions, question, spans, parts):
    """Divide the rows of a segment that may lie in a region into parts, most of them in the order of rows.

    spans  int64[s,SPAN_COLUMNS], for the work
    parts  int64[p,PART_COLUMNS], filled
    Returns both arrays, which may be longer, and the number of parts.
    """
    size = 0
    for piece in range(regions.piece_offsets[question], regions.piece_offsets[question + 1]):
        box = regions.boxes[piece]
        spans, count = split_list(objects, False, 0, len(objects.codes), box, spans)
        parts = with_room(parts, size + count)
        for span in range(count):
            # `split_list` returns the last rows first.
            parts[size + count - 1 - span, :SPAN_COLUMNS] = spans[span]
        parts[size : size + count, PIECE] = piece
        parts[size : size + count, LEFT_FROM:] = 0
        size += count
    return spans, parts, size


@kernel
def choose_lists(objects, lists, regions, parts, number, window):
    """Choose the lists of the cells and slices inside the region and the window.

    parts   int64[p,PART_COLUMNS]: those of the region, `number` of them
    Returns the parts that are left, and the chosen lists, int64[c,LIST_COLUMNS] in the order of the parts.
    """
    first, stop = _slices_inside(lists.slice_times, window.after_ts, window.up_to_ts)
    if first == stop:
        return parts[:number], np.empty((0, LIST_COLUMNS), np.int64)
    # A part is divided into four, or sixteen if it is the world.
    left, kept = np.empty((4 * number + 16, PART_COLUMNS), np.int64), 0
    chosen, size = np.empty((4 * number + 16, LIST_COLUMNS), np.int64), 0
    for part in range(number):
        rows = parts[part, 1] - parts[part, 0]
        if parts[part, 2] == 0 or regions.tests[parts[part, PIECE]] or rows < lists.listed_rows[0]:
            left[kept] = parts[part]
            kept += 1
            continue
        level, cell = parts[part, 3] >> 32, parts[part, 3] & 0xFFFFFFFF
        below = 2 if level == 0 else level + (level & 1)
        shift, low = 2 * (LEVELS - below), parts[part, 0]
        begin = cell << 2 * (below - level)
        for child in range(begin, begin + (1 << 2 * (below - level))):
            high = parts[part, 1] if below == level else find(objects.codes, low, parts[part, 1], (child + 1) << shift)
            place, since, until = _lists_of_cell(lists, below << 32 | child, high - low, first, stop)
            if place >= 0:
                chosen[size, 0], chosen[size, 1], chosen[size, 2] = place, since, until
                chosen[size, 3], chosen[size, 4] = low, high
                size += 1
            if high > low and until - since < SLICES:
                left[kept] = parts[part]
                left[kept, 0], left[kept, 1] = low, high
                left[kept, LEFT_FROM], left[kept, LEFT_TO] = lists.slice_times[since], lists.slice_times[until]
                kept += 1
            low = high
    return left[:kept], chosen[:size]


class TermCounter(NamedTuple):
    """Arrays for the work of counting, for segments of up to t terms; all counts are 0 between questions.

    counts   int32[t+1,2]  count of each term, and the sum of the bounds of the lists that have it
    touched  int32[t+1]    the terms that are counted, in no order
    """

    counts: np.ndarray
    touched: np.ndarray


@leaf
def _add_lists(lists, chosen, counter):
    """Add the chosen lists to the counts.

    Returns the number of touched terms, and the sum of the bounds of the lists.
    """
    counts, touched = counter
    size, bound = 0, 0
    for cell in range(len(chosen)):
        begin, end, _ = _numbers_of_lists(lists, chosen[cell])
        for number in range(begin, end):
            own = lists.list_bounds[number]
            bound += own
            for at in range(lists.list_offsets[number], lists.list_offsets[number + 1]):
                term = lists.list_terms[at]
                touched[size] = term
                size += counts[term, 0] == 0
                counts[term, 0] += lists.list_counts[at]
                counts[term, 1] += own
    return size, bound


@kernel
def count_unlisted(objects, lists, questions, terms, regions, windows):
    """Return how many objects that count by lists have a term that is not in these lists: int64[n].

    questions, terms  int64[n], int32[n]: the pairs of a question of the batch, ascending, and a term of the segment
    """
    numbers, missing = np.zeros(len(questions), np.int64), np.empty(SLICES, np.bool_)
    spans, parts = np.empty((256, SPAN_COLUMNS), np.int64), np.empty((256, PART_COLUMNS), np.int64)
    chosen, split = np.empty((0, LIST_COLUMNS), np.int64), -1
    for pair in range(len(questions)):
        question, term = questions[pair], terms[pair]
        if question != split:
            spans, parts, size = split_region(objects, regions, question, spans, parts)
            _, chosen = choose_lists(objects, lists, regions, parts, size, window_of(windows, question))
            split = question
        place, stop = objects.posting_offsets[term], objects.posting_offsets[term + 1]
        for cell in range(len(chosen)):
            # Most cells come after the last one.
            if cell and chosen[cell, 3] < chosen[cell - 1, 3]:
                place = objects.posting_offsets[term]
            if not _mark_missing(lists, chosen[cell], term, missing):
                continue
            place = gallop_number(objects.postings, place, stop, chosen[cell, 3])
            end = gallop_number(objects.postings, place, stop, chosen[cell, 4])
            if missing.all():
                numbers[pair] += end - place
                continue
            for at in range(place, end):
                ts = objects.times[number_at(objects.postings, at)]
                numbers[pair] += missing[find(lists.slice_times, 0, SLICES, ts + 1) - 1]
    return numbers


@leaf
def _mark_missing(lists, chosen, term, missing):
    """Mark the chosen slices of a cell whose lists do not have a term, of the last division; return whether any."""
    begin, end, wide = _numbers_of_lists(lists, chosen)
    missing[:] = False
    some = False
    for number in range(begin, end):
        listed = False
        for at in range(lists.list_offsets[number], lists.list_offsets[number + 1]):
            listed |= lists.list_terms[at] == term
        if not listed:
            since = chosen[1] + (number - begin) * wide
            missing[since : since + wide] = True
            some = True
    return some


@leaf
def _numbers_of_lists(lists, chosen):
    """Return the number of the first list that is chosen of a cell, that after the last, and the slices of each."""
    first = lists.cell_lists[chosen[0]]
    wide = SLICES // (lists.cell_lists[chosen[0] + 1] - first)
    return first + chosen[1] // wide, first + chosen[2] // wide, wide


@leaf
def _slices_inside(slice_times, after_ts, up_to_ts):
    """Return the first slice whose objects all have after_ts < ts <= up_to_ts, and the one after the last."""
    first, stop = 0, len(slice_times) - 1
    while first < stop and slice_times[first] <= after_ts:
        first += 1
    while stop > first and slice_times[stop] - 1 > up_to_ts:
        stop -= 1
    return first, stop


@leaf
def _lists_of_cell(lists, cell, rows, first, stop):
    """Choose the division whose lists cover the most of the slices [first, stop) of a cell.

    Returns the place of the cell with this division, -1 without such lists, and the slices (of the last division) from
    and up to which they cover.
    """
    best, since, until = -1, 0, 0
    for division in range(len(DIVISIONS)):
        if rows < lists.listed_rows[division]:
            break
        wide = SLICES // DIVISIONS[division]
        begin, end = -(-first // wide) * wide, stop // wide * wide
        if end - begin <= until - since:
            continue
        wanted = division << DIVISION_SHIFT | cell
        place = find(lists.cells, 0, len(lists.cells), wanted)
        if place < len(lists.cells) and lists.cells[place] == wanted:
            best, since, until = place, begin, end
    return best, since, until


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


class CountedSegment(NamedTuple):
    """A segment whose terms are counted.

    objects   ObjectArrays (kernels/questions/question_arrays.py)
    lists     FrequentTerms (kernels/questions/frequent_terms.py)
    tiers     int64[t+1]  see kernels/questions/frequent_terms.py
    last_key  int         greatest key of its objects
    """

    objects: ObjectArrays
    lists: FrequentTerms
    tiers: np.ndarray
    last_key: int


class _Wanted(NamedTuple):
    """Which terms of a question are counted: its k, and whether all are. Else those of at most `rare` objects are left
    out, and those of more that cannot have a count to return.

    some_keys  whether objects of the segment may have keys above the last that counts
    """

    k: int
    complete: bool
    rare: int
    some_keys: bool


@kernel
def count_terms(segment, asked, regions, windows, limits, complete, room, counter):
    """Return the terms with the greatest counts of each question.

    segment           CountedSegment
    asked             int64[]: the questions to answer, of those of the batch
    regions, windows  RegionArrays, Windows, of the batch
    limits            int64[q]: k of each question
    complete          whether to count all rows and return all terms
    room              the kernel stops after the question with which it has returned this many terms
    counter           TermCounter
    Returns offsets int64[answered+1], terms int32[] (numbered within the segment, in no order), counts int32[],
    gaps int32[], and the greatest count of a term that is not returned, int64[answered].
    """
    objects, lists, tiers, last_key = segment
    offsets, bounds = np.zeros(len(asked) + 1, np.int64), np.zeros(len(asked), np.int64)
    terms, total = np.empty((4096, 3), np.int32), 0
    spans, split = np.empty((256, SPAN_COLUMNS), np.int64), np.empty((256, PART_COLUMNS), np.int64)
    block = np.empty(BLOCK, np.int64)
    for place in range(len(asked)):
        question = asked[place]
        window, k = window_of(windows, question), limits[question]
        size, bound, rare = 0, 0, 0
        spans, split, number = split_region(objects, regions, question, spans, split)
        parts, some_keys = split[:number], window.up_to_key < last_key
        if not complete:
            rare = _rows_of(parts) // (LEFT_OUT * (k + 16))
            if not some_keys:
                parts, chosen = choose_lists(objects, lists, regions, split, number, window)
                size, bound = _add_lists(lists, chosen, counter)
        wanted = _Wanted(k, complete, rare, some_keys)
        size, kept, left_out = _count_parts(objects, regions, parts, window, tiers, wanted, block, counter, size)
        least = 1 if complete else max(1, _kth_count(counter, size, k) // EMITTED_SHARE)
        terms = with_room(terms, total + size)
        total = _emit(terms, total, counter, size, least, kept, bound)
        offsets[place + 1], bounds[place] = total, max(least - 1 + bound, left_out)
        if total >= room:
            offsets, bounds = offsets[: place + 2], bounds[: place + 1]
            break
    return offsets, terms[:total, 0].copy(), terms[:total, 1].copy(), terms[:total, 2].copy(), bounds


@kernel
def _count_parts(objects, regions, parts, window, tiers, wanted, rows, counter, size):
    """Add the terms of the rows of parts that count to the counts, but those that are not wanted.

    rows, counter, size  int64[BLOCK], for the work; the counts so far, with so many touched terms
    Returns the number of touched terms, of terms that are counted, and the greatest number of objects of another.
    """
    kept, left_out = _terms_to_count(tiers, wanted, counter, size)
    sample, counted = _rows_of(parts) // SAMPLE_SHARE, 0
    sampled = wanted.complete or sample < BLOCK
    for part in parts:
        if not sampled and counted >= sample:
            counter.counts[kept] = 0
            kept, left_out = _terms_to_count(tiers, wanted, counter, size)
            sampled = True
        counted += part[1] - part[0]
        size = _count_rows(objects, regions, part, window, wanted.some_keys, kept, rows, counter, size)
    counter.counts[kept] = 0
    return size, kept, left_out


@kernel
def _terms_to_count(tiers, wanted, counter, size):
    """Return `terms_to_count` by the k-th greatest count so far."""
    return terms_to_count(tiers, max(wanted.rare, _kth_count(counter, size, wanted.k) // COUNTED_SHARE))


@kernel
def _rows_of(parts):
    """Return the number of rows of some parts."""
    rows = 0
    for part in parts:
        rows += part[1] - part[0]
    return rows


@leaf
def _emit(terms, total, counter, size, least, kept, bound):
    """Append the touched terms before `kept` whose counts are `least` or more to `terms`; set all counts to zero.

    terms  int32[m,3]  out: terms, counts, gaps
    bound  the sum of the bounds of all lists that were added
    Returns how many there are then.
    """
    counts = counter.counts
    for term in counter.touched[:size]:
        if term < kept and counts[term, 0] >= least:
            terms[total, 0], terms[total, 1], terms[total, 2] = term, counts[term, 0], bound - counts[term, 1]
            total += 1
        counts[term, 0], counts[term, 1] = 0, 0
    return total


@kernel
def _count_rows(objects, regions, part, window, some_keys, kept, rows, counter, size):
    """Add the terms of the rows of a part that count to the counts; list those that were 0 as touched.

    part       see `split_region`
    kept       the place in `counts` for all terms from this on
    """
    # What is not 0 is not listed.
    counter.counts[kept, 0] = 1
    for begin in range(part[0], part[1], BLOCK):
        number = 0
        for row in range(begin, min(begin + BLOCK, part[1])):
            ts = objects.times[row]
            rows[number] = row
            number += (
                (ts >= window.after_ts) & (ts <= window.up_to_ts) & ((ts < part[LEFT_FROM]) | (ts >= part[LEFT_TO]))
            )
        number = _keep_rows(objects, regions, part, rows[:number], window, some_keys)
        size = _add_terms(objects, rows[:number], kept, counter, size)
    return size


@leaf
def _add_terms(objects, rows, kept, counter, size):
    """Add the terms of rows to the counts; list those that were 0 as touched; return how many these are."""
    counts, touched = counter
    for row in rows:
        for own in range(objects.offsets[row], objects.offsets[row + 1]):
            # Without branches, the processor waits for several counts at a time.
            term = min(number_at(objects.row_terms, own), kept)
            touched[size] = term
            size += counts[term, 0] == 0
            counts[term, 0] += 1
    return size


@kernel
def _keep_rows(objects, regions, part, rows, window, some_keys):
    """Move the rows that count to the front, and begin to fetch their terms; return their number."""
    piece, inside = part[PIECE], part[2] == 1
    box, test = regions.boxes[piece], regions.tests[piece]
    test_start, test_stop = regions.number_offsets[piece], regions.number_offsets[piece + 1]
    size = 0
    for row in rows:
        ts = objects.times[row]
        if (some_keys or ts == window.after_ts) and not in_window(ts, objects.keys[row], window):
            continue
        if not inside or test:
            lon, lat = objects.places[row, 0], objects.places[row, 1]
            if not inside and not in_box(box, lon, lat):
                continue
            if test and not contains_point(test, regions.numbers, test_start, test_stop, lon, lat):
                continue
        prefetch(objects.row_terms, objects.offsets[row])
        rows[size] = row
        size += 1
    return size


@kernel
def _kth_count(counter, size, k):
    """Return the k-th greatest count of the first `size` touched terms, 0 if there are fewer."""
    counts, touched = counter
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
def count_objects(objects, segment_bounds, questions, terms, regions, windows):
    """Return the number of objects of each question that have a term: int64[n].

    objects           ObjectArrays, the segment
    segment_bounds    int64[4]: least and greatest ts, least and greatest key of the segment
    questions, terms  int64[n], int32[n]: the pairs of a question of the batch, ascending, and a term of the segment
    regions, windows  RegionArrays, Windows, of the batch
    """
    numbers = np.zeros(len(questions), np.int64)
    spans, parts = np.empty((256, SPAN_COLUMNS), np.int64), np.empty((256, PART_COLUMNS), np.int64)
    size, split = 0, -1
    for pair in range(len(questions)):
        question = questions[pair]
        window = window_of(windows, question)
        if question != split:
            spans, parts, size = split_region(objects, regions, question, spans, parts)
            split = question
        everything = (
            window.after_ts < segment_bounds[0]
            and window.up_to_ts >= segment_bounds[1]
            and window.up_to_key >= segment_bounds[3]
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
                numbers[pair] += _count_postings(objects, regions, parts[part], begin, end, window)
    return numbers


@kernel
def _count_postings(objects, regions, part, begin, end, window):
    """Return the number of rows of the postings [begin, end), which lie in a part, that count."""
    piece, inside = part[PIECE], part[2] == 1
    box, test = regions.boxes[piece], regions.tests[piece]
    test_start, test_stop = regions.number_offsets[piece], regions.number_offsets[piece + 1]
    number = 0
    for place in range(begin, end):
        row = number_at(objects.postings, place)
        if in_window(objects.times[row], objects.keys[row], window):
            lon, lat = objects.places[row, 0], objects.places[row, 1]
            if inside or in_box(box, lon, lat):
                number += not test or contains_point(test, regions.numbers, test_start, test_stop, lon, lat)
    return number


# Merge the counts of terms of all segments, and keep the terms that may be among the k greatest of a question.


class SegmentCounts(NamedTuple):
    """The counts of terms of s segments for q questions.

    ids            int64[n]    term ids
    counts, gaps   int32[n]    their counts and gaps
    starts, stops  int64[s,q]  slice of them of each segment and question
    bounds         int64[s,q]  greatest count of a term that is not in the slice
    """

    ids: np.ndarray
    counts: np.ndarray
    gaps: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    bounds: np.ndarray


@kernel
def merge_counts(counted, limits):
    """Merge the counts of segments, and keep for each question the terms that may have one of the k greatest.

    counted  SegmentCounts
    limits   int64[q]: k of each question
    Returns whether the counts suffice for each question, bool[q] (others have no terms), offsets int64[q+1], and for
    each kept term its place in `ids` (one of its places), its least count, and whether this is exact.
    """
    questions, starts = len(limits), counted.starts
    offsets, enough = np.zeros(questions + 1, np.int64), np.zeros(questions, np.bool_)
    places, numbers, exact = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.bool_)
    total = 0
    slots = np.full(1024, -1, np.int64)
    for question in range(questions):
        most, bound = 0, 0
        for segment in range(len(starts)):
            most += counted.stops[segment, question] - starts[segment, question]
            bound += counted.bounds[segment, question]
        while 2 * most > len(slots):
            slots = np.full(2 * len(slots), -1, np.int64)
        firsts, sums = np.empty(most, np.int64), np.empty((most, 2), np.int64)
        size = _add_up(counted, question, bound, slots, firsts, sums)
        _empty_slots(slots, counted.ids, firsts[:size])
        least = _kth_greatest(sums[:size, 0].copy(), limits[question])
        enough[question] = bound == 0 or bound < least
        places, numbers = with_room(places, total + size), with_room(numbers, total + size)
        exact = with_room(exact, total + size)
        for at in range(size):
            if enough[question] and sums[at, 0] + sums[at, 1] >= least:
                places[total], numbers[total], exact[total] = firsts[at], sums[at, 0], sums[at, 1] == 0
                total += 1
        offsets[question + 1] = total
    return enough, offsets, places[:total].copy(), numbers[:total].copy(), exact[:total].copy()


@kernel
def _add_up(counted, question, bound, slots, firsts, sums):
    """Add up the counts, and the gaps, of each term of a question; return the number of terms.

    slots  int64[2^b], all -1: a hash table of the terms by id, filled with places in `firsts`, their first places
    """
    ids, counts, gaps, starts, stops, bounds = counted
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
def find_ids(counted, questions, wanted):
    """Return where each segment has the wanted id of a question, -1 where it has not: int64[s,n].

    counted            SegmentCounts
    questions, wanted  int64[n]
    """
    ids, starts, stops = counted.ids, counted.starts, counted.stops
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
