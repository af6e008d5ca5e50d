"""Read a part of a list of rows together with the list of a second term, instead of looking into each row.

Two lists of similar length are walked at once, both in order. If the second is much longer, rows are looked into.
"""

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.questions.packed_numbers import find_number, number_at

WALKED = 64
"""Shorter parts of lists are not walked: their rows are looked into."""

LONGER = 8
"""A second list that is this many times longer, or more, is not walked."""


@leaf
def choose_partner(posting_offsets, literal_offsets, literals, first, stop, driving):
    """Return the term of the clause of [first, stop) with one term, not the driving one, with the fewest postings.

    -1: there is no such clause.
    """
    partner, fewest = -1, 0
    for clause in range(first, stop):
        place = literal_offsets[clause]
        if clause == driving or literal_offsets[clause + 1] - place != 1 or literals[place] < 0:
            continue
        postings = posting_offsets[literals[place] + 1] - posting_offsets[literals[place]]
        if partner < 0 or postings < fewest:
            partner, fewest = literals[place], postings
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
        rows[count] = mine
        count += mine == other
        low += mine <= other
        begin += other <= mine
    return count
