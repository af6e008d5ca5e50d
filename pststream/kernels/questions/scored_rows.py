"""Find the k objects of a segment with the greatest scores of place and text for the words of a question.

The score is alpha * max(0, 1 - distance / scale) + (1 - alpha) * cosine. The cosine is the sum of the squared weights
of the shared words over the lengths of the vectors of question and object. A question reads the postings of its words,
rarest first; an object is scored at the first of the words that it has. The lists are quadtrees: cells of all lists are
visited by a bound of the score of their objects, until it is below the k-th score. Frequent terms have a second list,
of their short texts, so that there is a closer bound for all other texts.
"""

import math

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.matching.shapes.circle import EARTH_RADIUS_M
from pststream.kernels.questions.best_rows import offer_row
from pststream.kernels.questions.cell_queue import COLUMNS, pop_cell, push_cell, with_room_for_cells
from pststream.kernels.questions.packed_numbers import find_number, number_at
from pststream.kernels.questions.place_codes import LEVELS, haversine
from pststream.kernels.questions.question_arrays import in_window
from pststream.kernels.questions.score_bounds import (
    DEGREE,
    MARGIN,
    greatest_place_score,
    greatest_square,
    least_cosine,
    least_haversine_of_cell,
)
from pststream.kernels.questions.text_weights import FREQUENT, first_row_of
from pststream.kernels.search import find

SCANNED = 128
"""A cell with at most this many places of a list is read without further division, and so many are read together."""

FIELDS = 4
"""Numbers of a word in `words`: its squared weight; top and root: (1 - alpha) * cosine of an object that has no rarer
word is at most top / max(root, length of the object's vector); the squared length below which its objects are in the
list of short texts.
"""


@kernel
def find_scored(
    objects, texts, asked, points, scales, clauses, weights, squares, after, up_to, starts, sizes, values, best
):
    """Offer objects to the heaps of best rows, so that each has the k best of all segments offered so far.

    objects, clauses, after, up_to   see kernels/questions/question_arrays.py; each clause is a word
    texts        see kernels/questions/text_weights.py
    asked        int64[]        the questions to answer, of those of the batch
    points       float64[q,2]   longitude and latitude of each question
    scales       float64[q,2]   alpha and the scale of distances in metres
    weights      float32[c]     the weight of each word
    squares      float32[q]     the squared length of each question
    starts       int64[q+1], sizes int64[q], values float32[], best int64[n,3]: the heaps
                 (kernels/questions/best_rows.py) of scores below 0. Places below 0 are objects of this segment:
                 -1 - row
    """
    longest = 0
    for question in asked:
        longest = max(longest, clauses.clause_offsets[question + 1] - clauses.clause_offsets[question])
    terms, words, bounds_of_texts = np.empty(longest, np.int32), np.empty((longest, FIELDS)), np.empty(2 * longest)
    queue = np.empty(256, np.float64), np.empty((256, COLUMNS), np.int64)
    rows, codes = np.empty(SCANNED, np.int32), np.empty(SCANNED, np.int64)
    numbers, nears = np.empty(SCANNED, np.float64), np.empty(SCANNED, np.float64)
    for question in asked:
        first, stop = clauses.clause_offsets[question], clauses.clause_offsets[question + 1]
        count = _order_words(objects.posting_offsets, clauses.literals, weights, first, stop, terms, words)
        if not count:
            continue
        alpha, scale = scales[question, 0], scales[question, 1]
        start, end, filled = starts[question], starts[question + 1], sizes[question]
        limit = _limit_of(values[start:end], filled)
        queue, size = _push_lists(
            objects, texts, terms[:count], words, alpha, squares[question], limit, queue, bounds_of_texts
        )
        queue, sizes[question] = _visit_cells(
            objects, texts, points[question], alpha, scale, squares[question], terms[:count], words, bounds_of_texts,
            after[question], up_to[question], values[start:end], best[start:end], filled, queue, size, rows, codes,
            numbers, nears,
        )  # fmt: skip


@kernel
def _limit_of(values, filled):
    """Return the bound above which nothing enters the heap: values and bounds are scores below 0."""
    return float(values[0]) + MARGIN if filled == len(values) else math.inf


@kernel
def _order_words(posting_offsets, literals, weights, first, stop, terms, words):
    """Write the words of a question that the segment has to `terms`, by their number of objects, and their squared
    weights to words[:, 0]; return how many there are.
    """
    size = 0
    for literal in range(first, stop):
        term = literals[literal]
        if term < 0:
            continue
        count = posting_offsets[term + 1] - posting_offsets[term]
        at = size
        while at > 0 and posting_offsets[terms[at - 1] + 1] - posting_offsets[terms[at - 1]] > count:
            terms[at], words[at, 0] = terms[at - 1], words[at - 1, 0]
            at -= 1
        terms[at], words[at, 0] = term, np.float64(weights[literal]) * np.float64(weights[literal])
        size += 1
    return size


@kernel
def _push_lists(objects, texts, terms, words, alpha, square, limit, queue, bounds_of_texts):
    """Put the lists of the words into the empty queue; return its arrays and its size.

    Writes the other FIELDS of the words, and to bounds_of_texts the greatest part of the score that texts give: at
    2 * word of its list of short texts, at 2 * word + 1 of the others, or of all.
    """
    (bounds, cells), size, tail = queue, 0, 0.0
    for word in range(len(terms) - 1, -1, -1):
        # An object of this list that is scored has no rarer word.
        tail += words[word, 0]
        top, root = (1.0 - alpha) * tail / math.sqrt(square), math.sqrt(tail)
        words[word, 1], words[word, 2], words[word, 3] = top, root, -1.0
        low, high = objects.posting_offsets[terms[word]], objects.posting_offsets[terms[word] + 1]
        least = 0.0
        bounds, cells = with_room_for_cells(bounds, cells, size)
        if high - low >= FREQUENT:
            at = find(texts.frequent, 0, len(texts.frequent), terms[word])
            shortest = math.sqrt(np.float64(texts.least_squares[at]))
            least = math.sqrt(np.float64(texts.floors[0]))
            words[word, 3] = texts.floors[0]
            bounds_of_texts[2 * word] = top / max(root, shortest)
            begin, end = texts.short_offsets[at], texts.short_offsets[at + 1]
            bound = -(alpha + bounds_of_texts[2 * word])
            if end > begin and bound <= limit:
                size = push_cell(bounds, cells, size, bound, 2 * word, begin, end, 0, 0)
        bounds_of_texts[2 * word + 1] = top / max(root, least)
        bound = -(alpha + bounds_of_texts[2 * word + 1])
        if bound <= limit:
            size = push_cell(bounds, cells, size, bound, 2 * word + 1, low, high, 0, 0)
    return (bounds, cells), size


@kernel
def _visit_cells(
    objects, texts, point, alpha, scale, square, terms, words, bounds_of_texts, after, up_to, values, best, filled,
    queue, size, rows, codes, numbers, nears,
):  # fmt: skip
    """Visit the cells of the queue, greatest bound first; return the arrays of the queue and the size of the heap."""
    bounds, cells = queue
    lon, lat, cosine = point[0], point[1], least_cosine(point[1] * DEGREE)
    limit = _limit_of(values, filled)
    while size and bounds[0] <= limit:
        number, low, high, cell, level = cells[0, 0], cells[0, 1], cells[0, 2], cells[0, 3], cells[0, 4]
        near = -bounds[0] - bounds_of_texts[number]
        size = pop_cell(bounds, cells, size)
        word, lists = number >> 1, objects.postings if number & 1 else texts.short_rows
        if high - low <= SCANNED or level == LEVELS:
            floor = np.float32(words[word, 3] if number & 1 else -1.0)
            for begin in range(low, high, SCANNED):
                filled = _read_places(
                    objects, texts, lists, begin, min(begin + SCANNED, high), lon, lat, cosine, alpha, scale, square,
                    terms, words, word, near, floor, after, up_to, values, best, filled, rows, codes, numbers, nears,
                )  # fmt: skip
            limit = _limit_of(values, filled)
            continue
        bounds, cells = with_room_for_cells(bounds, cells, size)
        shift = 2 * (LEVELS - level - 1)
        begin = low
        for child in range(4):
            below = cell << 2 | child
            end = high
            if child < 3:
                row = first_row_of(objects.codes, texts.cell_rows, (below + 1) << shift)
                end = find_number(lists, begin, high, row)
            if end > begin:
                a = least_haversine_of_cell(lon, lat, cosine, below, level + 1)
                bound = -(greatest_place_score(a, alpha, scale) + bounds_of_texts[number])
                if bound <= limit:
                    size = push_cell(bounds, cells, size, bound, number, begin, end, below, level + 1)
            begin = end
    return (bounds, cells), filled


@kernel
def _read_places(
    objects, texts, lists, low, high, lon, lat, cosine_of_lat, alpha, scale, square, terms, words, word, near, floor,
    after, up_to, values, best, filled, rows, codes, numbers, nears,
):  # fmt: skip
    """Offer those of the rows lists[low:high] that count; return the size of the heap.

    near   bound of the part of the score that the place gives, for all of them
    floor  rows with a smaller squared length are in the list of short texts
    rows, codes, numbers, nears   work arrays for SCANNED rows: each step keeps the rows that the next one has to read
    """
    limit, top, root = _limit_of(values, filled), words[word, 1], words[word, 2]
    longest = greatest_square(limit, near, top, root)
    count = 0
    for place in range(low, high):
        row = number_at(lists, place)
        rows[count] = row
        length = texts.squares[row]
        count += (length <= longest) & (length >= floor)
    for at in range(count):
        prefetch(objects.offsets, rows[at])
        codes[at] = objects.codes[rows[at]]
        numbers[at] = texts.squares[rows[at]]
    for at in range(count):
        a = least_haversine_of_cell(lon, lat, cosine_of_lat, codes[at], LEVELS)
        nears[at] = greatest_place_score(a, alpha, scale)
        numbers[at] = -(nears[at] + top / max(root, math.sqrt(numbers[at])))
    kept = 0
    for at in range(count):
        rows[kept], nears[kept] = rows[at], nears[at]
        kept += numbers[at] <= limit
    for at in range(kept):
        prefetch(objects.row_terms, objects.offsets[rows[at]])
    count = 0
    for at in range(kept):
        row = rows[at]
        cosine = _cosine(objects, row, terms, words, word, square, texts.squares[row])
        text = (1.0 - alpha) * cosine
        enters = cosine >= 0.0 and -(nears[at] + text) <= limit
        rows[count], numbers[count] = row, text
        count += enters
    for at in range(count):
        row, ts, key = rows[at], objects.times[rows[at]], objects.keys[rows[at]]
        if in_window(ts, key, after[0], after[1], up_to[0], up_to[1]):
            a = haversine(lon, lat, objects.places[row, 0], objects.places[row, 1])
            metres = 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a)))
            score = alpha * max(0.0, 1.0 - metres / scale) + numbers[at]
            filled = offer_row(values, best, 0, filled, len(values), np.float32(-score), ts, key, -1 - row)
    return filled


@kernel
def _cosine(objects, row, terms, words, word, square, length):
    """Return the cosine of an object of the list of a word, below 0 if it has a rarer one."""
    shared = 0.0
    for own in range(objects.offsets[row], objects.offsets[row + 1]):
        term = number_at(objects.row_terms, own)
        for other in range(len(terms)):
            if term == terms[other]:
                if other < word:
                    return -1.0
                shared += words[other, 0]
    return shared / math.sqrt(np.float64(square) * np.float64(length))
