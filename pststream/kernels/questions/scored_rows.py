"""Find the k objects of a segment with the greatest scores of place and text for the words of a question.

The score is alpha * max(0, 1 - distance / scale) + (1 - alpha) * cosine. The cosine is the sum of the squared weights
of the shared words over the lengths of the vectors of question and object. A question reads the postings of its words,
rarest first; an object is scored at the first of the words that it has. The lists are quadtrees: cells of all lists are
visited by a bound of the score of their objects, until it is below the k-th score. Frequent terms have a second list,
of their short texts, so that there is a closer bound for all other texts.
"""

import math

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.questions.codes import LEVELS, find_number, number_at
from pststream.kernels.questions.heaps import COLUMNS, offer_row, pop_cell, push_cell, with_room_for_cells
from pststream.kernels.questions.question_arrays import first_row_of, in_window
from pststream.kernels.questions.scores import (
    DEGREE,
    FREQUENT,
    MARGIN,
    cosine_of,
    filter_bit,
    greatest_place_score,
    least_cosine,
    least_haversine_of_cell,
    place_score,
)
from pststream.kernels.sort_and_search import find

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
    texts        see kernels/questions/scores.py
    asked        int64[]        the questions to answer, of those of the batch
    points       float64[q,2]   longitude and latitude of each question
    scales       float64[q,2]   alpha and the scale of distances in metres
    weights      float32[c]     the weight of each word
    squares      float32[q]     the squared length of each question
    starts       int64[q+1], sizes int64[q], values float32[], best int64[n,3]: the heaps
                 (kernels/questions/heaps.py) of scores below 0. Places below 0 are objects of this segment:
                 -1 - row
    """
    longest = 0
    for question in asked:
        longest = max(longest, clauses.clause_offsets[question + 1] - clauses.clause_offsets[question])
    terms, words, bounds_of_texts = np.empty(longest, np.int32), np.empty((longest, FIELDS)), np.empty(2 * longest)
    bits = np.empty(longest, np.int64)
    queue = np.empty(256, np.float64), np.empty((256, COLUMNS), np.int64)
    rows, looks = np.empty(SCANNED, np.int64), np.empty((SCANNED, 3), np.int64)
    scores = np.empty((SCANNED, 2), np.float64)
    lengths = texts.looks.view(np.float32)
    for question in asked:
        first, stop = clauses.clause_offsets[question], clauses.clause_offsets[question + 1]
        count = _order_words(objects.posting_offsets, clauses.literals, weights, first, stop, terms, words)
        if not count:
            continue
        for word in range(count):
            bits[word] = filter_bit(terms[word])
        alpha, scale = scales[question, 0], scales[question, 1]
        start, end, filled = starts[question], starts[question + 1], sizes[question]
        limit = _limit_of(values[start:end], filled)
        queue, size = _push_lists(
            objects, texts, terms[:count], words, alpha, squares[question], limit, queue, bounds_of_texts
        )
        queue, sizes[question] = _visit_cells(
            objects, texts, lengths, points[question], alpha, scale, squares[question], terms[:count], words, bits,
            bounds_of_texts, after[question], up_to[question], values[start:end], best[start:end], filled, queue, size,
            rows, looks, scores,
        )  # fmt: skip


@leaf
def _limit_of(values, filled):
    """Return the bound above which nothing enters the heap: values and bounds are scores below 0."""
    return float(values[0]) + MARGIN if filled == len(values) else math.inf


@leaf
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
        # Short texts have a list of their own; all others are at least as long as the floor, which lowers their bound.
        if high - low >= FREQUENT:
            at = find(texts.frequent, 0, len(texts.frequent), terms[word])
            shortest = math.sqrt(np.float64(texts.least_squares[at]))
            least = math.sqrt(np.float64(texts.floors[0]))
            words[word, 3] = texts.floors[0]
            bounds_of_texts[2 * word] = top / max(root, shortest)
            begin, end = texts.short_offsets[at], texts.short_offsets[at + 1]
            # The first cell is the whole world, where a place may give all of alpha.
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
    objects, texts, lengths, point, alpha, scale, square, terms, words, bits, bounds_of_texts, after, up_to, values,
    best, filled, queue, size, rows, looks, scores,
):  # fmt: skip
    """Visit the cells of the queue, greatest bound first; return the arrays of the queue and the size of the heap."""
    bounds, cells = queue
    cosine = least_cosine(point[1] * DEGREE)
    limit = _limit_of(values, filled)
    while size and bounds[0] <= limit:
        number, low, high, level = cells[0, 0], cells[0, 1], cells[0, 2], cells[0, 4]
        if high - low <= SCANNED or level == LEVELS:
            # A bound is the sum of both parts of the score: this is the part of the place.
            near = -bounds[0] - bounds_of_texts[number]
            size = pop_cell(bounds, cells, size)
            filled = _read_places(
                objects, texts, lengths, number, low, high, point, cosine, alpha, scale, square, terms, words, bits,
                near, after, up_to, values, best, filled, rows, looks, scores,
            )  # fmt: skip
            limit = _limit_of(values, filled)
        else:
            bounds, cells = with_room_for_cells(bounds, cells, size)
            size = _divide_cell(
                objects, texts, point, cosine, alpha, scale, bounds_of_texts, limit, bounds, cells, size
            )
    return (bounds, cells), filled


@leaf
def _divide_cell(objects, texts, point, cosine, alpha, scale, bounds_of_texts, limit, bounds, cells, size):
    """Replace the first cell of the queue by those of its four parts that may be good enough; return its size."""
    number, low, high, cell, level = cells[0, 0], cells[0, 1], cells[0, 2], cells[0, 3], cells[0, 4] + 1
    size = pop_cell(bounds, cells, size)
    lists = objects.postings if number & 1 else texts.short_rows
    shift = 2 * (LEVELS - level)
    # The list is in Morton order, so each quarter of the cell is a part of it.
    begin = low
    for child in range(4):
        below = cell << 2 | child
        end = high
        if child < 3:
            row = first_row_of(objects.codes, objects.cell_rows, (below + 1) << shift)
            end = find_number(lists, begin, high, row)
        if end > begin:
            a = least_haversine_of_cell(point[0], point[1], cosine, below, level)
            bound = -(greatest_place_score(a, alpha, scale) + bounds_of_texts[number])
            if bound <= limit:
                size = push_cell(bounds, cells, size, bound, number, begin, end, below, level)
        begin = end
    return size


@leaf
def _read_places(
    objects, texts, lengths, number, low, high, point, cosine, alpha, scale, square, terms, words, bits, near, after,
    up_to, values, best, filled, rows, looks, scores,
):  # fmt: skip
    """Offer the rows of the part [low, high) of a list to the heap; return its size."""
    lon, lat, word = point[0], point[1], number >> 1
    lists = objects.postings if number & 1 else texts.short_rows
    floor = np.float32(words[word, 3] if number & 1 else -1.0)
    for begin in range(low, high, SCANNED):
        limit = _limit_of(values, filled)
        count = _look_at_places(
            texts.looks, lengths, lists, begin, min(begin + SCANNED, high), alpha, square, words, word,
            bits[: len(terms)], near, floor, limit, rows, looks, scores,
        )  # fmt: skip
        count = _keep_near(lon, lat, cosine, alpha, scale, limit, count, rows, looks, scores)
        filled = _offer_rows(
            objects, lengths, rows[:count], looks, scores, lon, lat, alpha, scale, square, terms, words, word,
            after, up_to, values, best, filled,
        )  # fmt: skip
    return filled


@leaf
def _look_at_places(
    texts, lengths, lists, low, high, alpha, square, words, word, bits, near, floor, limit, rows, looks, scores
):
    """Write the rows of lists[low:high] whose texts may be good enough to `rows`; return their number.

    texts, lengths  `looks` of kernels/questions/scores.py, as uint32 and as float32
    near    bound of the part of the score that the place gives, for all of them
    floor   rows with a smaller squared length are in the list of short texts
    looks   gets the code, whether the text may have other words of the question, and (not here) more of each row
    scores  gets the bound of the part of the score that the text gives
    """
    size = high - low
    for place in range(size):
        row = number_at(lists, low + place)
        rows[place] = row
        prefetch(texts, row)
    own, part, others = words[word, 0], (1.0 - alpha) / math.sqrt(np.float64(square)), 0
    for other in range(len(bits)):
        if other != word:
            others |= np.int64(1) << bits[other]
    count = 0
    for place in range(size):
        row = rows[place]
        length = lengths[row, 1]
        filter_of_row = np.int64(texts[row, 2]) | np.int64(texts[row, 3]) << 32
        # An upper bound of what is shared: other words may have set the same bits of the filter.
        shared = own
        for other in range(word + 1, len(bits)):
            shared += words[other, 0] * ((filter_of_row >> bits[other]) & 1)
        text = part * shared / math.sqrt(max(np.float64(length), shared))
        # Every row is written, but only one that may be good enough advances: no branch to mispredict.
        rows[count], looks[count, 0], looks[count, 1] = row, texts[row, 0], (filter_of_row & others) != 0
        scores[count, 0] = text
        count += (-(near + text) <= limit) & (length >= floor)
    return count


@leaf
def _keep_near(lon, lat, cosine_of_lat, alpha, scale, limit, count, rows, looks, scores):
    """Keep those of the rows whose places and texts together may be good enough; return their number.

    scores[:, 1] gets the bound of the part of the score that the place gives.
    """
    # A loop of its own without branches, so that the compiler computes several bounds at once.
    for at in range(count):
        a = least_haversine_of_cell(lon, lat, cosine_of_lat, looks[at, 0], LEVELS)
        scores[at, 1] = greatest_place_score(a, alpha, scale)
    kept = 0
    for at in range(count):
        rows[kept], looks[kept, 1] = rows[at], looks[at, 1]
        scores[kept, 0], scores[kept, 1] = scores[at, 0], scores[at, 1]
        kept += -(scores[at, 0] + scores[at, 1]) <= limit
    return kept


@leaf
def _offer_rows(
    objects, lengths, rows, looks, scores, lon, lat, alpha, scale, square, terms, words, word, after, up_to, values,
    best, filled,
):  # fmt: skip
    """Offer those of the rows that count; return the size of the heap."""
    for row in rows:
        prefetch(objects.times, row)
        prefetch(objects.offsets, row)
        prefetch(objects.keys, row)
        prefetch(objects.places, row)
    for at in range(len(rows)):
        if looks[at, 1]:
            prefetch(objects.row_terms, objects.offsets[rows[at]])
    limit = _limit_of(values, filled)
    for at in range(len(rows)):
        row = rows[at]
        if -(scores[at, 0] + scores[at, 1]) > limit:
            continue
        ts, key = objects.times[row], objects.keys[row]
        if not in_window(ts, key, after[0], after[1], up_to[0], up_to[1]):
            continue
        shared = words[word, 0]
        if looks[at, 1]:
            shared = _shared_weight(objects, row, terms, words, word)
        # The exact text with the bound of the place may spare the exact distance.
        text = (1.0 - alpha) * cosine_of(shared, square, lengths[row, 1])
        if shared < 0.0 or -(text + scores[at, 1]) > limit:
            continue
        score = place_score(lon, lat, objects.places[row, 0], objects.places[row, 1], alpha, scale) + text
        filled = offer_row(values, best, 0, filled, len(values), np.float32(-score), ts, key, -1 - row)
        limit = _limit_of(values, filled)
    return filled


@leaf
def _shared_weight(objects, row, terms, words, word):
    """Return the sum of the squared weights of the words that an object of the list of a word has, below 0 if it has
    a rarer one.
    """
    shared = 0.0
    for own in range(objects.offsets[row], objects.offsets[row + 1]):
        term = number_at(objects.row_terms, own)
        for other in range(len(terms)):
            if term == terms[other]:
                if other < word:
                    return -1.0
                shared += words[other, 0]
    return shared
