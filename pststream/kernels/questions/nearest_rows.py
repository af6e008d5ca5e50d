"""Find the k objects of a segment that are nearest to the point of a question and satisfy its clauses.

A question reads the postings of its clause with the fewest, or all rows. The lists are quadtrees, as they are in Morton
order: cells are visited by their least distance from the point, until it is above the distance of the k-th object.
"""

import math
from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.matching.contains_point import EARTH_RADIUS_M, haversine, metres_of
from pststream.kernels.questions.codes import LEVELS
from pststream.kernels.questions.heaps import (
    make_queue,
    offer_row,
    pop_cell,
    push_cell,
    with_room_for_cells,
    worst_value,
)
from pststream.kernels.questions.question_arrays import find_place, has_any, in_window, satisfies_others, window_of
from pststream.kernels.questions.rows_in_regions import choose_partner, read_rows
from pststream.kernels.questions.scores import DEGREE, least_cosine, least_haversine_of_cell

SCANNED = 16
"""A cell with at most this many places of a list is read without further division."""

MANY = 2000
"""Once a question has read this many places of lists, its words rarely meet, and it reads larger cells."""

SCANNED_LATER = 1024
"""As SCANNED, for these: two lists are walked faster than cells are visited (kernels/questions/rows_in_regions.py)."""

MARGIN = 1e-6
"""Relative margin of bounds: more than float32 and the haversine formula round."""

LEAST_MARGIN = 1e-15
"""Absolute margin of haversines: about 0.4 m at the point itself."""


@leaf
def haversine_limit(metres: np.float32) -> float:
    """Return a haversine above which no distance is as small as this."""
    angle = min(float(metres) / (2.0 * EARTH_RADIUS_M), math.pi / 2.0)
    return math.sin(angle) ** 2 * (1.0 + MARGIN) + LEAST_MARGIN


class _Asked(NamedTuple):
    """The question that is answered: its number in the batch, the clause whose lists it reads (-1: all rows), its point
    in degrees, and `least_cosine` of the latitude.
    """

    question: int
    driving: int
    lon: float
    lat: float
    cosine: float


@kernel
def find_nearest(objects, asked, paths, points, clauses, windows, heaps):
    """Offer objects to the heaps of nearest rows, so that each has the k nearest of all segments offered so far.

    objects   ObjectArrays, the segment
    asked     int64[]         the questions to answer, of those of the batch
    paths     int64[asked]    the clause whose lists each question reads, -1: all rows, -2: it has no answer
    points    float64[q,2]    longitude and latitude of each question, degrees
    clauses, windows          ClauseArrays, Windows, of the batch
    heaps     Heaps           of distances in metres
    """
    queue, rows = make_queue(), len(objects.codes)
    for at in range(len(asked)):
        question, driving = asked[at], paths[at]
        if driving == -2:
            continue
        # Each list begins as one cell, the world.
        size = 0
        if driving < 0:
            size = push_cell(queue, size, 0.0, 0, 0, rows, 0, 0)
        else:
            head = clauses.literal_offsets[driving]
            for number in range(clauses.literal_offsets[driving + 1] - head):
                term = clauses.literals[head + number]
                if term >= 0:
                    low, high = objects.posting_offsets[term], objects.posting_offsets[term + 1]
                    queue = with_room_for_cells(queue, size)
                    size = push_cell(queue, size, 0.0, number, low, high, 0, 0)
        lon, lat = points[question, 0], points[question, 1]
        one = _Asked(question, driving, lon, lat, least_cosine(lat * DEGREE))
        queue = _visit_cells(objects, clauses, one, window_of(windows, question), heaps, queue, size)


@kernel
def _visit_cells(objects, clauses, asked, window, heaps, queue, size):
    """Visit the cells of the queue, least bound first; return the queue, which may be longer then."""
    listed, limit = asked.driving >= 0, haversine_limit(worst_value(heaps, asked.question))
    partner = choose_partner(objects, clauses, asked.question, asked.driving)
    rows, read = np.empty(SCANNED_LATER, np.int32), 0
    while size and queue.bounds[0] <= limit:
        cells = queue.cells
        number, low, high, level = cells[0, 0], cells[0, 1], cells[0, 2], cells[0, 4]
        scanned = SCANNED_LATER if partner >= 0 and listed and read > MANY else SCANNED
        if high - low <= scanned or level == LEVELS:
            size = pop_cell(queue, size)
            read += high - low
            rows, count = read_rows(objects, listed, low, high, partner, rows)
            _offer_rows(objects, clauses, asked, window, number, rows[:count], heaps, limit)
            limit = haversine_limit(worst_value(heaps, asked.question))
        else:
            queue = with_room_for_cells(queue, size)
            size = _divide_cell(objects, asked, limit, queue, size)
    return queue


@leaf
def _divide_cell(objects, asked, limit, queue, size):
    """Replace the first cell of the queue by those of its four parts that are within the limit; return its size."""
    cells = queue.cells
    number, low, high, cell, level = cells[0, 0], cells[0, 1], cells[0, 2], cells[0, 3], cells[0, 4] + 1
    size = pop_cell(queue, size)
    shift = 2 * (LEVELS - level)
    begin = low
    for child in range(4):
        below = cell << 2 | child
        end = high
        if child < 3:
            end = find_place(objects, begin, high, (below + 1) << shift, asked.driving >= 0)
        if end > begin:
            bound = least_haversine_of_cell(asked.lon, asked.lat, asked.cosine, below, level)
            if bound <= limit:
                size = push_cell(queue, size, bound, number, begin, end, below, level)
        begin = end
    return size


@leaf
def _offer_rows(objects, clauses, asked, window, number, rows, heaps, limit):
    """Offer the rows of a list that satisfy the question and are within the limit."""
    question, driving, lon, lat, _ = asked
    first, stop = clauses.clause_offsets[question], clauses.clause_offsets[question + 1]
    head = clauses.literal_offsets[driving] if driving >= 0 else 0
    for row in rows:
        a = haversine(lon, lat, objects.places[row, 0], objects.places[row, 1])
        if a > limit:
            continue
        ts, key = objects.times[row], objects.keys[row]
        if not in_window(ts, key, window):
            continue
        # An object with several terms of the driving clause counts at the first of them.
        if number and has_any(objects.offsets, objects.row_terms, row, clauses.literals, head, head + number):
            continue
        if satisfies_others(
            objects.offsets, objects.row_terms, row, clauses.literal_offsets, clauses.literals, first, stop, driving
        ):
            offer_row(heaps, question, np.float32(metres_of(a)), ts, key, -1 - row)
