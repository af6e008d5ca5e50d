"""Find the k objects of a segment that are nearest to the point of a question and satisfy its clauses.

A question reads the postings of its clause with the fewest, or all rows. The lists are quadtrees, as they are in Morton
order: cells are visited by their least distance from the point, until it is above the distance of the k-th object.
"""

import math

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.matching.contains_point import EARTH_RADIUS_M
from pststream.kernels.questions.codes import LEVELS, haversine
from pststream.kernels.questions.heaps import COLUMNS, offer_row, pop_cell, push_cell, with_room_for_cells
from pststream.kernels.questions.question_arrays import (
    find_place,
    has_any,
    in_window,
    satisfies_others,
)
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
def metres_of(a: float) -> np.float32:
    """Return the distance of a haversine as it is compared: metres, rounded to float32."""
    return np.float32(2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a))))


@leaf
def haversine_limit(metres: np.float32) -> float:
    """Return a haversine above which no distance is as small as this."""
    angle = min(float(metres) / (2.0 * EARTH_RADIUS_M), math.pi / 2.0)
    return math.sin(angle) ** 2 * (1.0 + MARGIN) + LEAST_MARGIN


@kernel
def find_nearest(objects, asked, paths, points, clauses, after, up_to, starts, sizes, values, best):
    """Offer objects to the heaps of nearest rows, so that each has the k nearest of all segments offered so far.

    asked     int64[]         the questions to answer, of those of the batch
    paths     int64[asked]    the clause whose lists each question reads, -1: all rows, -2: it has no answer
    objects, clauses, after, up_to   see kernels/questions/question_arrays.py
    points    float64[q,2]    longitude and latitude of each question
    starts    int64[q+1], sizes int64[q], values float32[], best int64[n,3]: the heaps (kernels/questions/heaps.py)
              of distances in metres. Places below 0 are objects of this segment: -1 - row
    """
    bounds, cells = np.empty(256, np.float64), np.empty((256, COLUMNS), np.int64)
    rows = len(objects.codes)
    for at in range(len(asked)):
        question, driving = asked[at], paths[at]
        if driving == -2:
            continue
        # Each list begins as one cell, the world.
        size = 0
        if driving < 0:
            size = push_cell(bounds, cells, size, 0.0, 0, 0, rows, 0, 0)
        else:
            head = clauses.literal_offsets[driving]
            for number in range(clauses.literal_offsets[driving + 1] - head):
                term = clauses.literals[head + number]
                if term >= 0:
                    low, high = objects.posting_offsets[term], objects.posting_offsets[term + 1]
                    bounds, cells = with_room_for_cells(bounds, cells, size)
                    size = push_cell(bounds, cells, size, 0.0, number, low, high, 0, 0)
        bounds, cells = _visit_cells(
            objects, points[question], clauses, question, driving, after[question], up_to[question],
            starts, sizes, values, best, bounds, cells, size,
        )  # fmt: skip


@kernel
def _visit_cells(
    objects, point, clauses, question, driving, after, up_to, starts, sizes, values, best, bounds, cells, size
):
    """Visit the cells of the queue, least bound first; return the arrays of the queue, which may be longer then."""
    lon, lat, cosine = point[0], point[1], least_cosine(point[1] * DEGREE)
    start, capacity = starts[question], starts[question + 1] - starts[question]
    limit = haversine_limit(values[start]) if sizes[question] == capacity else math.inf
    partner = choose_partner(
        objects.posting_offsets, clauses.literal_offsets, clauses.literals,
        clauses.clause_offsets[question], clauses.clause_offsets[question + 1], driving,
    )  # fmt: skip
    rows, read = np.empty(SCANNED_LATER, np.int32), 0
    while size and bounds[0] <= limit:
        number, low, high, level = cells[0, 0], cells[0, 1], cells[0, 2], cells[0, 4]
        scanned = SCANNED_LATER if partner >= 0 and driving >= 0 and read > MANY else SCANNED
        if high - low <= scanned or level == LEVELS:
            size = pop_cell(bounds, cells, size)
            read += high - low
            rows, count = read_rows(objects, driving >= 0, low, high, partner, rows)
            _offer_rows(
                objects, lon, lat, clauses, question, driving, number, rows[:count], after, up_to,
                start, capacity, sizes, values, best, limit,
            )  # fmt: skip
            limit = haversine_limit(values[start]) if sizes[question] == capacity else math.inf
        else:
            bounds, cells = with_room_for_cells(bounds, cells, size)
            size = _divide_cell(objects, lon, lat, cosine, driving >= 0, limit, bounds, cells, size)
    return bounds, cells


@leaf
def _divide_cell(objects, lon, lat, cosine, listed, limit, bounds, cells, size):
    """Replace the first cell of the queue by those of its four parts that are within the limit; return its size."""
    number, low, high, cell, level = cells[0, 0], cells[0, 1], cells[0, 2], cells[0, 3], cells[0, 4] + 1
    size = pop_cell(bounds, cells, size)
    shift = 2 * (LEVELS - level)
    begin = low
    for child in range(4):
        below = cell << 2 | child
        end = high
        if child < 3:
            end = find_place(objects, begin, high, (below + 1) << shift, listed)
        if end > begin:
            bound = least_haversine_of_cell(lon, lat, cosine, below, level)
            if bound <= limit:
                size = push_cell(bounds, cells, size, bound, number, begin, end, below, level)
        begin = end
    return size


@leaf
def _offer_rows(
    objects, lon, lat, clauses, question, driving, number, rows, after, up_to,
    start, capacity, sizes, values, best, limit,
):  # fmt: skip
    """Offer the rows of a list that satisfy the question and are within the limit."""
    first, stop = clauses.clause_offsets[question], clauses.clause_offsets[question + 1]
    head = clauses.literal_offsets[driving] if driving >= 0 else 0
    after_ts, after_key, up_to_ts, up_to_key = after[0], after[1], up_to[0], up_to[1]
    for row in rows:
        a = haversine(lon, lat, objects.places[row, 0], objects.places[row, 1])
        if a > limit:
            continue
        ts, key = objects.times[row], objects.keys[row]
        if not in_window(ts, key, after_ts, after_key, up_to_ts, up_to_key):
            continue
        # An object with several terms of the driving clause counts at the first of them.
        if number and has_any(objects.offsets, objects.row_terms, row, clauses.literals, head, head + number):
            continue
        if satisfies_others(
            objects.offsets, objects.row_terms, row, clauses.literal_offsets, clauses.literals, first, stop, driving
        ):
            sizes[question] = offer_row(values, best, start, sizes[question], capacity, metres_of(a), ts, key, -1 - row)
