"""Count the terms of the cells that lie in a region by their lists, and leave the other rows to be counted one by one.

Only slices of time inside the window count by their lists (kernels/questions/frequent_terms.py): of the divisions for
which a cell has lists, the one whose slices cover the most of the window.
"""

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.questions.frequent_terms import DIVISION_SHIFT, DIVISIONS, SLICES
from pststream.kernels.questions.packed_numbers import gallop_number, number_at
from pststream.kernels.questions.place_codes import LEVELS
from pststream.kernels.questions.rows_in_regions import SPAN_COLUMNS, split_list
from pststream.kernels.search import find

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
        if size + count > len(parts):
            longer = np.empty((2 * (size + count), PART_COLUMNS), np.int64)
            longer[:size] = parts[:size]
            parts = longer
        for span in range(count):
            # `split_list` returns the last rows first.
            parts[size + count - 1 - span, :SPAN_COLUMNS] = spans[span]
        parts[size : size + count, PIECE] = piece
        parts[size : size + count, LEFT_FROM:] = 0
        size += count
    return spans, parts, size


@kernel
def choose_lists(objects, lists, regions, parts, number, after_ts, up_to_ts):
    """Choose the lists of the cells and slices inside the region and the window.

    parts   int64[p,PART_COLUMNS]: those of the region, `number` of them
    Returns the parts that are left, and the chosen lists, int64[c,LIST_COLUMNS] in the order of the parts.
    """
    first, stop = _slices_inside(lists.slice_times, after_ts, up_to_ts)
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


@leaf
def add_lists(lists, chosen, counts, touched):
    """Add the chosen lists to `counts`; list their terms in `touched` (kernels/questions/count_terms.py).

    Returns the number of touched terms, and the sum of the bounds of the lists.
    """
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
def count_unlisted(objects, lists, questions, terms, regions, after, up_to):
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
            _, chosen = choose_lists(objects, lists, regions, parts, size, after[question, 0], up_to[question, 0])
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
