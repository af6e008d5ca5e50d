"""Find the k objects of a segment with the greatest scores of place and text for the words of a question.

The score is alpha * max(0, 1 - distance / scale) + (1 - alpha) * cosine. The cosine is the sum of the squared weights
of the shared words over the lengths of the vectors of question and object. A question reads the postings of its words,
rarest first; an object is scored at the first of the words that it has. The lists are quadtrees: cells of all lists are
visited by a bound of the score of their objects, until it is below the k-th score. Frequent terms have a second list,
of their short texts, so that there is a closer bound for all other texts.
"""

import math
from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.questions.codes import LEVELS, find_number, number_at
from pststream.kernels.questions.heaps import (
    make_queue,
    offer_row,
    pop_cell,
    push_cell,
    with_room_for_cells,
    worst_value,
)
from pststream.kernels.questions.question_arrays import first_row_of, in_window, window_of
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
"""Numbers of a word: its squared weight; top and root: (1 - alpha) * cosine of an object that has no rarer word is at
most top / max(root, length of the object's vector); the squared length below which its objects are in the list of short
texts.
"""


class ScoredQuestions(NamedTuple):
    """What scores need of a batch of q questions, whose c clauses are one word each.

    points   float64[q,2]  longitude and latitude, degrees
    scales   float64[q,2]  alpha, and the scale of distances in metres
    weights  float32[c]    the weight of each word
    squares  float32[q]    the sum of the squared weights of the words
    """

    points: np.ndarray
    scales: np.ndarray
    weights: np.ndarray
    squares: np.ndarray


class _Asked(NamedTuple):
    """The question that is answered: its number in the batch, its point in degrees, `least_cosine` of the latitude,
    alpha, the scale of distances in metres, and the squared length of its vector.
    """

    question: int
    lon: float
    lat: float
    cosine: float
    alpha: float
    scale: float
    square: np.float32


class _Words(NamedTuple):
    """The words of a question that the segment has, those with the fewest objects first.

    terms    int32[w]         numbers of the words within the segment
    numbers  float64[w,FIELDS]
    bits     int64[w]         bit of each word in the filters of texts
    bounds   float64[2w]      greatest part of a score that texts give: at 2 * word of its list of short texts, at
                              2 * word + 1 of the others, or of all
    """

    terms: np.ndarray
    numbers: np.ndarray
    bits: np.ndarray
    bounds: np.ndarray


class _Looked(NamedTuple):
    """The rows that are looked at together, and what is known of each.

    rows    int64[SCANNED]
    looks   int64[SCANNED,2]    code of the place; whether the text may have other words of the question
    scores  float64[SCANNED,2]  bounds of the parts of the score that the text and the place give
    """

    rows: np.ndarray
    looks: np.ndarray
    scores: np.ndarray


@kernel
def find_scored(objects, texts, asked, questions, clauses, windows, heaps):
    """Offer objects to the heaps of best rows, so that each has the k best of all segments offered so far.

    objects, texts    ObjectArrays, TextArrays (kernels/questions/scores.py), the segment
    asked             int64[]  the questions to answer, of those of the batch
    questions         ScoredQuestions
    clauses, windows  ClauseArrays, Windows, of the batch; each clause is a word
    heaps             Heaps of scores below 0
    """
    longest = 0
    for question in asked:
        longest = max(longest, clauses.clause_offsets[question + 1] - clauses.clause_offsets[question])
    room = _Words(
        np.empty(longest, np.int32), np.empty((longest, FIELDS)), np.empty(longest, np.int64), np.empty(2 * longest)
    )
    looked = _Looked(np.empty(SCANNED, np.int64), np.empty((SCANNED, 2), np.int64), np.empty((SCANNED, 2)))
    queue, lengths = make_queue(), texts.looks.view(np.float32)
    for question in asked:
        first, stop = clauses.clause_offsets[question], clauses.clause_offsets[question + 1]
        count = _order_words(objects.posting_offsets, clauses.literals, questions.weights, first, stop, room)
        if not count:
            continue
        words = _Words(room.terms[:count], room.numbers, room.bits[:count], room.bounds)
        lon, lat = questions.points[question, 0], questions.points[question, 1]
        alpha, scale = questions.scales[question, 0], questions.scales[question, 1]
        one = _Asked(question, lon, lat, least_cosine(lat * DEGREE), alpha, scale, questions.squares[question])
        queue, size = _push_lists(objects, texts, words, one, _limit_of(heaps, question), queue)
        queue = _visit_cells(
            objects, texts, lengths, one, words, window_of(windows, question), heaps, queue, size, looked
        )


@leaf
def _limit_of(heaps, question):
    """Return the bound above which nothing enters the heap: values and bounds are scores below 0."""
    return float(worst_value(heaps, question)) + MARGIN


@leaf
def _order_words(posting_offsets, literals, weights, first, stop, room):
    """Write the words of a question that the segment has to `room`, by their number of objects, with their bits and
    squared weights; return how many there are.
    """
    terms, words, _, _ = room
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
    for word in range(size):
        room.bits[word] = filter_bit(terms[word])
    return size


@kernel
def _push_lists(objects, texts, words, asked, limit, queue):
    """Put the lists of the words into the empty queue, and write the other numbers and the bounds of the words.

    Returns the queue and its size.
    """
    terms, numbers, _, bounds_of_texts = words
    alpha, size, tail = asked.alpha, 0, 0.0
    for word in range(len(terms) - 1, -1, -1):
        # An object of this list that is scored has no rarer word.
        tail += numbers[word, 0]
        top, root = (1.0 - alpha) * tail / math.sqrt(asked.square), math.sqrt(tail)
        numbers[word, 1], numbers[word, 2], numbers[word, 3] = top, root, -1.0
        low, high = objects.posting_offsets[terms[word]], objects.posting_offsets[terms[word] + 1]
        least = 0.0
        queue = with_room_for_cells(queue, size)
        # Short texts have a list of their own; all others are at least as long as the floor, which lowers their bound.
        if high - low >= FREQUENT:
            at = find(texts.frequent, 0, len(texts.frequent), terms[word])
            shortest = math.sqrt(np.float64(texts.least_squares[at]))
            least = math.sqrt(np.float64(texts.floors[0]))
            numbers[word, 3] = texts.floors[0]
            bounds_of_texts[2 * word] = top / max(root, shortest)
            begin, end = texts.short_offsets[at], texts.short_offsets[at + 1]
            # The first cell is the whole world, where a place may give all of alpha.
            bound = -(alpha + bounds_of_texts[2 * word])
            if end > begin and bound <= limit:
                size = push_cell(queue, size, bound, 2 * word, begin, end, 0, 0)
        bounds_of_texts[2 * word + 1] = top / max(root, least)
        bound = -(alpha + bounds_of_texts[2 * word + 1])
        if bound <= limit:
            size = push_cell(queue, size, bound, 2 * word + 1, low, high, 0, 0)
    return queue, size


@kernel
def _visit_cells(objects, texts, lengths, asked, words, window, heaps, queue, size, looked):
    """Visit the cells of the queue, greatest bound first; return the queue, which may be longer then."""
    limit = _limit_of(heaps, asked.question)
    while size and queue.bounds[0] <= limit:
        cells = queue.cells
        number, low, high, level = cells[0, 0], cells[0, 1], cells[0, 2], cells[0, 4]
        if high - low <= SCANNED or level == LEVELS:
            # A bound is the sum of both parts of the score: this is the part of the place.
            near = -queue.bounds[0] - words.bounds[number]
            size = pop_cell(queue, size)
            for begin in range(low, high, SCANNED):
                end = min(begin + SCANNED, high)
                _read_places(objects, texts, lengths, asked, words, window, heaps, number, begin, end, near, looked)
            limit = _limit_of(heaps, asked.question)
        else:
            queue = with_room_for_cells(queue, size)
            size = _divide_cell(objects, texts, asked, words.bounds[number], limit, queue, size)
    return queue


@leaf
def _divide_cell(objects, texts, asked, bound_of_texts, limit, queue, size):
    """Replace the first cell of the queue by those of its four parts that may be good enough; return its size."""
    cells = queue.cells
    number, low, high, cell, level = cells[0, 0], cells[0, 1], cells[0, 2], cells[0, 3], cells[0, 4] + 1
    size = pop_cell(queue, size)
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
            a = least_haversine_of_cell(asked.lon, asked.lat, asked.cosine, below, level)
            bound = -(greatest_place_score(a, asked.alpha, asked.scale) + bound_of_texts)
            if bound <= limit:
                size = push_cell(queue, size, bound, number, begin, end, below, level)
        begin = end
    return size


@leaf
def _read_places(objects, texts, lengths, asked, words, window, heaps, number, low, high, near, looked):
    """Offer the rows of the part [low, high) of a list, at most SCANNED, to the heap.

    lengths  `texts.looks` as float32
    number   the list: 2 * word of short texts, 2 * word + 1 of the others, or of all
    near     bound of the part of the score that the place gives, for all of them
    """
    word, limit = number >> 1, _limit_of(heaps, asked.question)
    lists = objects.postings if number & 1 else texts.short_rows
    # Rows of shorter texts are in the list of short texts.
    floor = np.float32(words.numbers[word, 3] if number & 1 else -1.0)
    count = _look_at_places(texts.looks, lengths, lists, low, high, asked, words, word, near, floor, limit, looked)
    count = _keep_near(asked, limit, count, looked)
    _offer_rows(objects, lengths, looked, count, asked, words, word, window, heaps)


@leaf
def _look_at_places(texts, lengths, lists, low, high, asked, words, word, near, floor, limit, looked):
    """Write the rows of lists[low:high] whose texts may be good enough to `looked`; return their number.

    texts, lengths  `looks` of kernels/questions/scores.py, as uint32 and as float32
    near    bound of the part of the score that the place gives, for all of them
    floor   rows with a smaller squared length are left out
    """
    rows, looks, scores = looked
    _, numbers, bits, _ = words
    size = high - low
    for place in range(size):
        row = number_at(lists, low + place)
        rows[place] = row
        prefetch(texts, row)
    own, part, others = numbers[word, 0], (1.0 - asked.alpha) / math.sqrt(np.float64(asked.square)), 0
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
            shared += numbers[other, 0] * ((filter_of_row >> bits[other]) & 1)
        text = part * shared / math.sqrt(max(np.float64(length), shared))
        # Every row is written, but only one that may be good enough advances: no branch to mispredict.
        rows[count], looks[count, 0], looks[count, 1] = row, texts[row, 0], (filter_of_row & others) != 0
        scores[count, 0] = text
        count += (-(near + text) <= limit) & (length >= floor)
    return count


@leaf
def _keep_near(asked, limit, count, looked):
    """Keep those of the rows whose places and texts together may be good enough; return their number."""
    rows, looks, scores = looked
    lon, lat, cosine, alpha, scale = asked.lon, asked.lat, asked.cosine, asked.alpha, asked.scale
    # A loop of its own without branches, so that the compiler computes several bounds at once.
    for at in range(count):
        a = least_haversine_of_cell(lon, lat, cosine, looks[at, 0], LEVELS)
        scores[at, 1] = greatest_place_score(a, alpha, scale)
    kept = 0
    for at in range(count):
        rows[kept], looks[kept, 1] = rows[at], looks[at, 1]
        scores[kept, 0], scores[kept, 1] = scores[at, 0], scores[at, 1]
        kept += -(scores[at, 0] + scores[at, 1]) <= limit
    return kept


@leaf
def _offer_rows(objects, lengths, looked, count, asked, words, word, window, heaps):
    """Offer those of the first `count` rows that count to the heap of the question."""
    rows, looks, scores = looked
    for at in range(count):
        row = rows[at]
        prefetch(objects.times, row)
        prefetch(objects.offsets, row)
        prefetch(objects.keys, row)
        prefetch(objects.places, row)
    for at in range(count):
        if looks[at, 1]:
            prefetch(objects.row_terms, objects.offsets[rows[at]])
    question, lon, lat, _, alpha, scale, square = asked
    limit = _limit_of(heaps, question)
    for at in range(count):
        row = rows[at]
        if -(scores[at, 0] + scores[at, 1]) > limit:
            continue
        ts, key = objects.times[row], objects.keys[row]
        if not in_window(ts, key, window):
            continue
        shared = words.numbers[word, 0]
        if looks[at, 1]:
            shared = _shared_weight(objects, row, words.terms, words.numbers, word)
        # The exact text with the bound of the place may spare the exact distance.
        text = (1.0 - alpha) * cosine_of(shared, square, lengths[row, 1])
        if shared < 0.0 or -(text + scores[at, 1]) > limit:
            continue
        score = place_score(lon, lat, objects.places[row, 0], objects.places[row, 1], alpha, scale) + text
        offer_row(heaps, question, np.float32(-score), ts, key, -1 - row)
        limit = _limit_of(heaps, question)


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
