"""Test clauses of words, phrases and exclusions at pairs of an object and a subscription."""

import numpy as np

from pststream.kernels.compile import kernel


@kernel
def has_term(terms, low, stop, wanted):
    """Return whether ascending `terms` have one in [low, stop) that differs from `wanted` in its lowest bit at most."""
    least, high = wanted & ~1, stop
    while low < high:
        middle = (low + high) >> 1
        if terms[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low < stop and terms[low] <= wanted | 1


@kernel
def verify_clauses(objects, rows, term_offsets, terms, clause_offsets, literal_offsets, literals):
    """Return whether each pair satisfies the clauses of its row: bool[n].

    objects, rows     int64[n]             the object, and the row of clauses, of each pair; -1: without clauses
    term_offsets, terms   int64[o+1], int64[]   ascending terms of each object, those of its phrases among them
    clause_offsets    int64[r+1]           slice of the clauses of each row
    literal_offsets   int64[c+1]           slice of the literals of each clause
    literals          int64[]              term ids; a lowest bit of 1: the object does not have the term
    """
    satisfied = np.ones(len(objects), np.bool_)
    for pair in range(len(objects)):
        row = rows[pair]
        if row < 0:
            continue
        low, high = term_offsets[objects[pair]], term_offsets[objects[pair] + 1]
        for clause in range(clause_offsets[row], clause_offsets[row + 1]):
            holds = False
            at = literal_offsets[clause]
            while not holds and at < literal_offsets[clause + 1]:
                holds = has_term(terms, low, high, literals[at]) != (literals[at] & 1 == 1)
                at += 1
            if not holds:
                satisfied[pair] = False
                break
    return satisfied
