"""Find the objects of a segment that lie in the region of a question, in its window, and satisfy its clauses.

A question reads the postings of its clause with the fewest, or all rows where that costs less. Either list is in Morton
order and so an implicit quadtree: parts of it that lie outside the box of a piece are skipped by binary search.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.matching.contains_point import contains_point
from pststream.kernels.matching.index_cells import interleave
from pststream.kernels.questions.codes import (
    LEVELS,
    column_of_code,
    find_number,
    number_at,
    place_column,
    place_row,
    row_of_code,
)
from pststream.kernels.questions.heaps import Heaps, offer_row
from pststream.kernels.questions.question_arrays import (
    choose_clauses,
    count_postings,
    find_place,
    has_any,
    in_box,
    in_window,
    satisfies_others,
    window_of,
)
from pststream.kernels.sort_and_search import with_room

# Read a part of a list of rows together with the list of a second term, instead of looking into each row.

WALKED = 64
"""Shorter parts of lists are not walked: their rows are looked into."""

LONGER = 8
"""A second list that is this many times longer, or more, is not walked."""


@leaf
def choose_partner(objects, clauses, question, driving):
    """Return the term of the clause of a question with one term, not the driving one, with the fewest postings.

    -1: there is no such clause.
    """
    partner, fewest = -1, 0
    for clause in range(clauses.clause_offsets[question], clauses.clause_offsets[question + 1]):
        place = clauses.literal_offsets[clause]
        if clause == driving or clauses.literal_offsets[clause + 1] - place != 1 or clauses.literals[place] < 0:
            continue
        term = clauses.literals[place]
        postings = objects.posting_offsets[term + 1] - objects.posting_offsets[term]
        if partner < 0 or postings < fewest:
            partner, fewest = term, postings
    return partner


@kernel
def read_rows(objects, listed, low, high, partner, rows):
    """Write the rows of the part [low, high) of a list to `rows`, without some that lack the partner.

    objects  see kernels/questions/question_arrays.py
    listed   whether the list is that of a term, not all rows
    partner  a term that the rows must have, -1: none
    rows     int32[], made longer if needed
    Returns the rows and their number.
    """
    if high - low > len(rows):
        rows = np.empty(2 * (high - low), np.int32)
    if not listed:
        for place in range(low, high):
            rows[place - low] = place
        return rows, high - low
    postings = objects.postings
    if partner >= 0 and high - low >= WALKED:
        begin, end = objects.posting_offsets[partner], objects.posting_offsets[partner + 1]
        # Only the postings of the partner between the first and the last row of the part can be shared.
        begin = find_number(postings, begin, end, number_at(postings, low))
        end = find_number(postings, begin, end, number_at(postings, high - 1) + 1)
        if end - begin < LONGER * (high - low):
            return rows, _walk_both(postings, low, high, begin, end, rows)
    for place in range(low, high):
        rows[place - low] = number_at(postings, place)
    return rows, high - low


@leaf
def _walk_both(postings, low, high, begin, end, rows):
    """Write the rows that are in both parts to `rows`; return their number."""
    count = 0
    while low < high and begin < end:
        mine, other = number_at(postings, low), number_at(postings, begin)
        # Without branches: which list is behind cannot be predicted.
        rows[count] = mine
        count += mine == other
        low += mine <= other
        begin += other <= mine
    return count


SCANNED = 24
"""A part of a list with at most this many places is read without further division."""

STACK = 4 * LEVELS + 4

SPAN_COLUMNS = 4

LIST_WORK = 40
"""Work of one list of postings that is divided into spans, in places read."""

AHEAD = 12
"""Rows between one that is tested and one that is fetched."""

READ_AT_ONCE = 4096
"""Places of a list whose rows are in memory at once."""


@kernel
def split_list(objects, listed, low, high, box, spans):
    """Divide the part [low, high) of a list into spans that may contain points of a box; return their number.

    listed  whether the list is that of a term, not all rows
    box     float64[4]: west, south, east, north
    spans   int64[s,4], filled and made longer where needed: first place, place after the last, whether all points of
            the span lie in the box, and its cell: level << 32 | the leading bits of its codes
    Returns the spans and their number.
    """
    corners = place_column(box[0]), place_column(box[2]), place_row(box[1]), place_row(box[3])
    first_column, last_column, first_row, last_row = corners
    # No place is beyond the edges of the world.
    least_column, greatest_column = first_column - (box[0] <= -180.0), last_column + (box[2] >= 180.0)
    least_row, greatest_row = first_row - (box[1] <= -90.0), last_row + (box[3] >= 90.0)
    stack = np.empty((STACK, 4), np.int64)
    waiting = _covering_cells(objects, listed, low, high, corners, stack)
    count = 0
    while waiting:
        waiting -= 1
        low, high, cell, level = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2], stack[waiting, 3]
        shift = LEVELS - level
        column, row = column_of_code(cell) << shift, row_of_code(cell) << shift
        side = (1 << shift) - 1
        if column > last_column or column + side < first_column or row > last_row or row + side < first_row:
            continue
        # Points of the columns and rows of the corners may lie outside the box.
        inside = (
            column > least_column and column + side < greatest_column and row > least_row and row + side < greatest_row
        )
        if inside or level == LEVELS or high - low <= SCANNED:
            spans = with_room(spans, count + 1)
            spans[count, 0], spans[count, 1], spans[count, 2], spans[count, 3] = low, high, inside, level << 32 | cell
            count += 1
            continue
        # The list is in Morton order, so each quarter of the cell is a part of it.
        begin = low
        for child in range(4):
            below = cell << 2 | child
            end = high
            if child < 3:
                end = find_place(objects, begin, high, (below + 1) << (2 * shift - 2), listed)
            if end > begin:
                stack[waiting, 0], stack[waiting, 1] = begin, end
                stack[waiting, 2], stack[waiting, 3] = below, level + 1
                waiting += 1
            begin = end
    return spans, count


@leaf
def _covering_cells(objects, listed, low, high, corners, stack):
    """Put the parts of a list in the cells that cover a box, up to four of one size, on the stack; return their number.

    corners  first column, last column, first row, last row of the box; see `split_list` for the other arguments
    """
    first_column, last_column, first_row, last_row = corners
    if high - low <= SCANNED:
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = low, high, 0, 0
        return 1
    shift, extent = 0, max(last_column - first_column, last_row - first_row)
    # The least cells of which the box touches at most 2 x 2.
    while extent >> shift:
        shift += 1
    count = 0
    for row in range(first_row >> shift, (last_row >> shift) + 1):
        for column in range(first_column >> shift, (last_column >> shift) + 1):
            cell = interleave(column, row)
            begin = find_place(objects, low, high, cell << 2 * shift, listed)
            end = find_place(objects, begin, high, (cell + 1) << 2 * shift, listed)
            if end > begin:
                stack[count, 0], stack[count, 1], stack[count, 2], stack[count, 3] = begin, end, cell, LEVELS - shift
                count += 1
    return count


FEW_LISTS = 4
"""A clause with fewer terms is read by its lists without an estimate: its lists hold fewer rows than the region."""

SPLIT_COST = 60
"""Cost of finding the parts of one list that lie in a region, in rows whose terms are looked into."""


@kernel
def choose_paths(objects, regions, clauses, asked):
    """Return the clause whose lists each question reads, -1 to read the rows of its region, -2 for no answer.

    The lists of a clause cost their splits, and the share of their places that lies in the region; the rows of the
    region cost one split, and a look into each. Returns int64[asked].
    """
    chosen = choose_clauses(objects, clauses, asked)
    spans = np.empty((256, SPAN_COLUMNS), np.int64)
    rows = len(objects.codes)
    for at in range(len(asked)):
        clause, question = chosen[at], asked[at]
        if clause < 0 or clauses.literal_offsets[clause + 1] - clauses.literal_offsets[clause] < FEW_LISTS:
            continue
        in_region, pieces = 0, regions.piece_offsets[question + 1] - regions.piece_offsets[question]
        for piece in range(regions.piece_offsets[question], regions.piece_offsets[question + 1]):
            spans, parts = split_list(objects, False, 0, rows, regions.boxes[piece], spans)
            for part in range(parts):
                in_region += spans[part, 1] - spans[part, 0]
        lists = clauses.literal_offsets[clause + 1] - clauses.literal_offsets[clause]
        # As if the postings were spread like all rows.
        listed = count_postings(objects, clauses, clause) * (in_region / rows)
        if pieces * SPLIT_COST + in_region < lists * pieces * SPLIT_COST + listed:
            chosen[at] = -1
    return chosen


@kernel
def find_rows(objects, asked, paths, regions, clauses, windows, heaps):
    """Return the objects that answer questions without a limit: int64[n,4], question, ts, key and row of each.

    objects   ObjectArrays, the segment
    asked     int64[]      the questions to answer, of those of the batch
    paths     int64[asked] how, as `choose_paths` returns it; the answer is the same for -1 and each clause
    regions, clauses, windows   RegionArrays, ClauseArrays, Windows, of the batch
    heaps     Heaps        of the newest rows of the questions with a limit; other questions have no room in them
    """
    most_work, marked = np.iinfo(np.int64).max, np.empty(0, np.bool_)
    answered, count, _ = _walk(objects, asked, paths, regions, clauses, windows, heaps, most_work, marked)
    return answered[:count].copy()


@kernel
def mark_rows(objects, asked, regions, clauses, windows, most_work, marked):
    """Set `marked` (bool[n]) for each object that answers one of the questions; return the work, in places read.

    asked      int64[]  the questions to ask, of those of the batch
    most_work  beyond so much work no question is asked
    objects, regions, clauses, windows   as `find_rows` takes them
    """
    none = np.empty(0, np.int64)
    heaps = Heaps(none, none, np.empty(0, np.float32), np.empty((0, 3), np.int64))
    paths = choose_clauses(objects, clauses, asked)
    return _walk(objects, asked, paths, regions, clauses, windows, heaps, most_work, marked)[2]


class _Part(NamedTuple):
    """What is read: a question, a piece of its region, the clause whose lists are read (-1: all rows), and the place of
    the list's term in it.
    """

    question: int
    piece: int
    driving: int
    number: int


@kernel
def _walk(objects, asked, paths, regions, clauses, windows, heaps, most_work, marked):
    """Read the lists of the questions in their pieces, until the work is above `most_work`.

    The rows that answer a question are set in `marked` (bool[n]); if that is empty, they are offered to its heap, or
    appended to those collected. Returns these, their number, and the work.
    """
    answered, count, work = np.empty((1024, 4), np.int64), 0, 0
    spans = np.empty((256, SPAN_COLUMNS), np.int64)
    chosen = np.empty(1024, np.int32)
    for at in range(len(asked)):
        question, driving = asked[at], paths[at]
        if driving == -2:
            continue
        head = clauses.literal_offsets[driving] if driving >= 0 else 0
        lists = clauses.literal_offsets[driving + 1] - head if driving >= 0 else 1
        for number in range(lists):
            low, high = 0, len(objects.codes)
            if driving >= 0:
                term = clauses.literals[head + number]
                if term < 0:
                    continue
                low, high = objects.posting_offsets[term], objects.posting_offsets[term + 1]
            for piece in range(regions.piece_offsets[question], regions.piece_offsets[question + 1]):
                spans, parts = split_list(objects, driving >= 0, low, high, regions.boxes[piece], spans)
                work += LIST_WORK
                for span in range(parts):
                    work += spans[span, 1] - spans[span, 0]
                if work > most_work:
                    return answered, count, work
                part = _Part(question, piece, driving, number)
                window = window_of(windows, question)
                chosen, kept = _read_spans(objects, regions, clauses, spans[:parts], part, window, chosen)
                if len(marked):
                    for row in chosen[:kept]:
                        marked[row] = True
                elif heaps.starts[question] < heaps.starts[question + 1]:
                    for row in chosen[:kept]:
                        offer_row(heaps, question, np.float32(0.0), objects.times[row], objects.keys[row], -1 - row)
                else:
                    answered, count = _append_rows(objects, question, chosen[:kept], answered, count)
    return answered, count, work


@kernel
def _append_rows(objects, question, rows, answered, count):
    """Append rows to those collected, made longer if needed; return these and their number."""
    answered = with_room(answered, count + len(rows))
    for row in rows:
        answered[count, 0], answered[count, 1], answered[count, 2] = question, objects.times[row], objects.keys[row]
        answered[count, 3] = row
        count += 1
    return answered, count


@kernel
def _read_spans(objects, regions, clauses, spans, part, window, chosen):
    """Write the rows of the spans that answer the question to `chosen`, made longer if needed; return it and their
    number.
    """
    partner = choose_partner(objects, clauses, part.question, part.driving)
    rows = np.empty(READ_AT_ONCE, np.int32)
    count = 0
    for span in range(len(spans)):
        for low in range(spans[span, 0], spans[span, 1], READ_AT_ONCE):
            high = min(low + READ_AT_ONCE, spans[span, 1])
            rows, size = read_rows(objects, part.driving >= 0, low, high, partner, rows)
            chosen, begin = with_room(chosen, count + size), count
            inside = spans[span, 2] == 1
            count = _choose_rows(objects, regions, clauses, rows[:size], inside, part, window, chosen, count)
            if regions.tests[part.piece]:
                count = _keep_contained(objects, regions, part.piece, chosen, begin, count)
    return chosen, count


@leaf
def _choose_rows(objects, regions, clauses, rows, inside, part, window, chosen, count):
    """Append the rows that answer the question, but for the exact test, to `chosen`; return their number."""
    question, piece, driving, number = part
    first, stop = clauses.clause_offsets[question], clauses.clause_offsets[question + 1]
    head = clauses.literal_offsets[driving] if driving >= 0 else 0
    box = regions.boxes[piece]
    for row in rows[:AHEAD]:
        _fetch_row(objects, row)
    for at in range(len(rows)):
        if at + AHEAD < len(rows):
            _fetch_row(objects, rows[at + AHEAD])
        row = rows[at]
        # What is fetched ahead is tested first, the terms of the row last.
        if not in_window(objects.times[row], objects.keys[row], window):
            continue
        if not inside and not in_box(box, objects.places[row, 0], objects.places[row, 1]):
            continue
        # An object with several terms of the driving clause counts at the first of them.
        if number and has_any(objects.offsets, objects.row_terms, row, clauses.literals, head, head + number):
            continue
        if not satisfies_others(
            objects.offsets, objects.row_terms, row, clauses.literal_offsets, clauses.literals, first, stop, driving
        ):
            continue
        chosen[count] = row
        count += 1
    return count


@kernel
def _keep_contained(objects, regions, piece, chosen, begin, end):
    """Keep those of the rows chosen[begin:end] that pass the exact test of a piece; return the new end."""
    start, stop = regions.number_offsets[piece], regions.number_offsets[piece + 1]
    count = begin
    for row in chosen[begin:end]:
        lon, lat = objects.places[row, 0], objects.places[row, 1]
        if contains_point(regions.tests[piece], regions.numbers, start, stop, lon, lat):
            chosen[count] = row
            count += 1
    return count


@leaf
def _fetch_row(objects, row):
    """Begin to read what is looked at of a row."""
    prefetch(objects.times, row)
    prefetch(objects.keys, row)
    prefetch(objects.places, row)
