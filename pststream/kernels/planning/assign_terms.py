"""Assign each term to one worker greedily by the loads of Definition 1, for planners that partition by text alone."""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.planning.assign_nodes import Rates, load_of
from pststream.kernels.sort_and_search import transpose


class TermRows(NamedTuple):
    """Rows, which are objects or subscriptions, and the terms of each.

    offsets  int64[n+1]  slice of `terms` of each row
    terms    int32[m]    numbers of terms from 0, distinct in a row
    """

    offsets: np.ndarray
    terms: np.ndarray


class _Reached(NamedTuple):
    """The workers that have a row of each term so far.

    offsets          as in TermRows
    starts, rows     int64[terms+1], int32[m]: the rows of each term
    workers, filled  int32[m], int32[n]: the workers of row r are workers[offsets[r] : offsets[r] + filled[r]]; a row
                     is at no more workers than it has terms, so the room of its terms is enough
    """

    offsets: np.ndarray
    starts: np.ndarray
    rows: np.ndarray
    workers: np.ndarray
    filled: np.ndarray


@kernel
def assign_by_frequency(
    order: np.ndarray, objects: np.ndarray, subscriptions: np.ndarray, read_seconds: np.ndarray, workers: int,
    rates: Rates,
) -> np.ndarray:  # fmt: skip
    """Return the worker of each term: the one least loaded with it, as if terms shared no rows: int32[terms].

    order                   int64[terms]   terms in the order in which they are assigned
    objects, subscriptions  int64[terms]   number of objects and subscriptions with each term
    read_seconds            float64[terms] seconds to read the postings that objects read under each term
    """
    term_worker = np.empty(len(order), np.int32)
    has_objects, has_subscriptions, has_reads = np.zeros(workers), np.zeros(workers), np.zeros(workers)
    for term in order:
        best, least = 0, np.inf
        for worker in range(workers):
            o = has_objects[worker] + objects[term]
            s = has_subscriptions[worker] + subscriptions[term]
            load = load_of(o, s, has_reads[worker], rates) + read_seconds[term]
            if load < least:
                best, least = worker, load
        term_worker[term] = best
        has_objects[best] += objects[term]
        has_subscriptions[best] += subscriptions[term]
        has_reads[best] += read_seconds[term]
    return term_worker


@kernel
def assign_by_metric(
    order: np.ndarray, given: np.ndarray, objects: TermRows, subscriptions: TermRows, read_seconds: np.ndarray,
    workers: int, rates: Rates, affinity: float,
) -> np.ndarray:  # fmt: skip
    """Return for each term the worker whose load with it, plus `affinity` times the added load, is least: int32[terms].

    A worker gets each object and subscription once, no matter how many of its terms it has.

    order         int64[terms]    terms in the order in which they are assigned
    given         int32[terms]    worker of a term that is already assigned, else -1
    read_seconds  float64[terms]  seconds to read the postings under each term
    """
    sent, stored = _reach(objects, len(order)), _reach(subscriptions, len(order))
    has_objects, has_subscriptions, has_reads = np.zeros(workers), np.zeros(workers), np.zeros(workers)
    new_objects, new_subscriptions = np.empty(workers), np.empty(workers)
    term_worker = np.empty(len(order), np.int32)
    for term in order:
        # Count the objects and subscriptions that the term would bring to each worker.
        _count_new(term, sent, new_objects)
        _count_new(term, stored, new_subscriptions)
        # Find the worker with the least score, unless the term is already assigned.
        best, least = 0, np.inf
        for worker in range(workers):
            o, s = has_objects[worker], has_subscriptions[worker]
            before = load_of(o, s, has_reads[worker], rates)
            o, s = o + new_objects[worker], s + new_subscriptions[worker]
            after = load_of(o, s, has_reads[worker], rates) + read_seconds[term]
            score = after + affinity * (after - before)
            if score < least:
                best, least = worker, score
        if given[term] >= 0:
            best = given[term]
        # Add the term to its worker, and mark the worker on the rows of the term.
        term_worker[term] = best
        has_objects[best] += new_objects[best]
        has_subscriptions[best] += new_subscriptions[best]
        has_reads[best] += read_seconds[term]
        _add(term, best, sent)
        _add(term, best, stored)
    return term_worker


@kernel
def _reach(rows: TermRows, terms: int) -> _Reached:
    """Return rows that no worker has yet."""
    starts, rows_of_terms = transpose(rows.offsets, rows.terms, terms)
    workers, filled = np.empty(len(rows.terms), np.int32), np.zeros(len(rows.offsets), np.int32)
    return _Reached(rows.offsets, starts, rows_of_terms, workers, filled)


@leaf
def _count_new(term: int, reached: _Reached, new: np.ndarray) -> None:
    """Write to `new` how many rows of a term each worker does not have yet."""
    offsets, starts, rows, workers, filled = reached
    # All rows of the term, less those that each worker has already.
    new[:] = starts[term + 1] - starts[term]
    for i in range(starts[term], starts[term + 1]):
        row = rows[i]
        for j in range(offsets[row], offsets[row] + filled[row]):
            new[workers[j]] -= 1


@leaf
def _add(term: int, worker: int, reached: _Reached) -> None:
    """Record that a worker has the rows of a term."""
    offsets, starts, rows, workers, filled = reached
    for i in range(starts[term], starts[term + 1]):
        row = rows[i]
        end = offsets[row] + filled[row]
        known = False
        for j in range(offsets[row], end):
            known = known or workers[j] == worker
        if not known:
            workers[end] = worker
            filled[row] += 1
