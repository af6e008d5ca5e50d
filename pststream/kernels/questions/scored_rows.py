"""Find the k objects of a segment with the greatest scores of place and text for the words of a question.

The score is alpha * max(0, 1 - distance / scale) + (1 - alpha) * cosine. Every word weighs 1, so the cosine of n
shared words is n / sqrt(words of the question * words of the object). A question reads the postings of its words,
rarest first; an object is scored at the first of the words that it has. The lists are quadtrees: cells of all lists are
visited by a bound of the score of their objects, until it is below the k-th score.
"""

import math

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.shapes.circle import EARTH_RADIUS_M
from pststream.kernels.questions.best_rows import offer_row
from pststream.kernels.questions.cell_queue import COLUMNS, pop_cell, push_cell, with_room_for_cells
from pststream.kernels.questions.packed_numbers import number_at
from pststream.kernels.questions.place_codes import LEVELS, haversine, least_haversine
from pststream.kernels.questions.question_arrays import find_code, has_any, in_window

SCANNED = 128
"""A cell with at most this many places of a list is read without further division."""

MARGIN = 1e-6
"""Margin of bounds of scores: more than float32 rounds."""


@kernel
def find_scored(objects, least_words, asked, points, weights, clauses, after, up_to, starts, sizes, values, best):
    """Offer objects to the heaps of best rows, so that each has the k best of all segments offered so far.

    objects, clauses, after, up_to   see kernels/questions/question_arrays.py; each clause is a word
    least_words  uint8[terms]   a lower bound of the words of an object that has the term
    asked        int64[]        the questions to answer, of those of the batch
    points       float64[q,2]   longitude and latitude of each question
    weights      float64[q,2]   alpha and the scale of distances in metres
    starts       int64[q+1], sizes int64[q], values float32[], best int64[n,3]: the heaps
                 (kernels/questions/best_rows.py) of scores below 0. Places below 0 are objects of this segment:
                 -1 - row
    """
    bounds, cells = np.empty(256, np.float64), np.empty((256, COLUMNS), np.int64)
    for question in asked:
        first, stop = clauses.clause_offsets[question], clauses.clause_offsets[question + 1]
        words = _rarest_first(objects.posting_offsets, clauses.literals, first, stop)
        alpha, scale, asked_words = weights[question, 0], weights[question, 1], stop - first
        texts = np.empty(len(words), np.float64)
        size = 0
        for number in range(len(words)):
            term = words[number]
            texts[number] = (1.0 - alpha) * _greatest_cosine(len(words) - number, asked_words, least_words[term])
            low, high = objects.posting_offsets[term], objects.posting_offsets[term + 1]
            bounds, cells = with_room_for_cells(bounds, cells, size)
            size = push_cell(bounds, cells, size, -(alpha + texts[number]), number, low, high, 0, 0)
        start, capacity = starts[question], starts[question + 1] - starts[question]
        bounds, cells, sizes[question] = _visit_cells(
            objects, points[question], alpha, scale, asked_words, words, texts, after[question], up_to[question],
            values[start : start + capacity], best[start : start + capacity], sizes[question], bounds, cells, size,
        )  # fmt: skip


@kernel
def _rarest_first(posting_offsets, literals, first, stop):
    """Return the words of a question that the segment has, by their number of objects: int32[]."""
    words, size = np.empty(stop - first, np.int32), 0
    for literal in range(first, stop):
        term = literals[literal]
        if term < 0:
            continue
        count = posting_offsets[term + 1] - posting_offsets[term]
        at = size
        while at > 0 and posting_offsets[words[at - 1] + 1] - posting_offsets[words[at - 1]] > count:
            words[at] = words[at - 1]
            at -= 1
        words[at] = term
        size += 1
    return words[:size]


@kernel
def _greatest_cosine(shared, asked_words, least_words):
    """Return the greatest cosine of an object with at most `shared` of the words and at least `least_words` in all."""
    return shared / math.sqrt(asked_words * max(shared, least_words))


@kernel
def _place_score(a, alpha, scale):
    """Return the part of the score that the place gives, from the haversine of the distance."""
    metres = 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a)))
    return alpha * max(0.0, 1.0 - metres / scale)


@kernel
def _visit_cells(
    objects, point, alpha, scale, asked_words, words, texts, after, up_to, values, best, filled, bounds, cells, size
):
    """Visit the cells of the queue, greatest bound first; return the arrays of the queue and the size of the heap."""
    lon, lat = point[0], point[1]
    # Bounds and values of the heap are below 0: the least is the best.
    limit = float(values[0]) + MARGIN if filled == len(values) else math.inf
    while size and bounds[0] <= limit:
        number, low, high, cell, level = cells[0, 0], cells[0, 1], cells[0, 2], cells[0, 3], cells[0, 4]
        nearness = -bounds[0] - texts[number]
        size = pop_cell(bounds, cells, size)
        if high - low <= SCANNED or level == LEVELS:
            filled = _read_places(
                objects, lon, lat, alpha, scale, asked_words, words, number, low, high, nearness, limit, after, up_to,
                values, best, filled,
            )  # fmt: skip
            limit = float(values[0]) + MARGIN if filled == len(values) else math.inf
            continue
        bounds, cells = with_room_for_cells(bounds, cells, size)
        shift = 2 * (LEVELS - level - 1)
        begin = low
        for child in range(4):
            below = cell << 2 | child
            end = high
            if child < 3:
                end = find_code(objects.codes, objects.postings, begin, high, (below + 1) << shift, True)
            if end > begin:
                a = max(0.0, least_haversine(lon, lat, below, level + 1) * (1.0 - MARGIN) - 1e-15)
                bound = -(_place_score(a, alpha, scale) + texts[number])
                if bound <= limit:
                    size = push_cell(bounds, cells, size, bound, number, begin, end, below, level + 1)
            begin = end
    return bounds, cells, filled


@kernel
def _read_places(
    objects, lon, lat, alpha, scale, asked_words, words, number, low, high, nearness, limit, after, up_to,
    values, best, filled,
):  # fmt: skip
    """Offer the objects at the places [low, high) of a list that count; return the size of the heap.

    nearness  bound of the part of the score that the place gives, for all of them
    limit     see `_visit_cells`
    """
    after_ts, after_key, up_to_ts, up_to_key = after[0], after[1], up_to[0], up_to[1]
    for place in range(low, high):
        row = number_at(objects.postings, place)
        # The place, which takes longest to score, last.
        length = objects.offsets[row + 1] - objects.offsets[row]
        text = (1.0 - alpha) * _greatest_cosine(len(words) - number, asked_words, length)
        if -(nearness + text) > limit:
            continue
        if number and has_any(objects.offsets, objects.row_terms, row, words, 0, number):
            continue
        shared = 0
        for own in range(objects.offsets[row], objects.offsets[row + 1]):
            term = number_at(objects.row_terms, own)
            for word in range(number, len(words)):
                shared += term == words[word]
        text = (1.0 - alpha) * (shared / math.sqrt(asked_words * length))
        ts, key = objects.times[row], objects.keys[row]
        if -(nearness + text) > limit or not in_window(ts, key, after_ts, after_key, up_to_ts, up_to_key):
            continue
        a = haversine(lon, lat, objects.places[row, 0], objects.places[row, 1])
        score = _place_score(a, alpha, scale) + text
        filled = offer_row(values, best, 0, filled, len(values), np.float32(-score), ts, key, -1 - row)
    return filled
