"""Assign each term to one worker greedily by the loads of Definition 1, for planners that partition by text alone."""

import numpy as np

from pststream.kernels.compile import kernel


@kernel
def transpose(offsets: np.ndarray, columns: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Transpose a CSR: return the rows of each of its `count` columns.

    offsets, columns  int64[rows+1], int32[n]   columns of each row
    Returns offsets int64[count+1], rows int32[n], ascending inside a column.
    """
    # Count the entries of each column, and sum the counts up to offsets.
    starts = np.zeros(count + 1, np.int64)
    for i in range(len(columns)):
        starts[columns[i] + 1] += 1
    for column in range(count):
        starts[column + 1] += starts[column]
    # Write each row to the next free position of its columns.
    free = starts.copy()
    rows = np.empty(len(columns), np.int32)
    for row in range(len(offsets) - 1):
        for i in range(offsets[row], offsets[row + 1]):
            rows[free[columns[i]]] = row
            free[columns[i]] += 1
    return starts, rows


@kernel
def assign_by_frequency(
    order: np.ndarray,
    objects: np.ndarray,
    subscriptions: np.ndarray,
    read_seconds: np.ndarray,
    workers: int,
    pair: float,
    object_rate: float,
    subscription_rate: float,
) -> np.ndarray:
    """Return the worker of each term: the one least loaded with it, as if terms shared no rows: int32[terms].

    order                   int64[terms]   terms in the order in which they are assigned
    objects, subscriptions  int64[terms]   number of objects and subscriptions with each term
    read_seconds            float64[terms] seconds to read the postings that objects read under each term
    pair, object_rate, subscription_rate   seconds, as in `planning.load_model.LoadRates`
    """
    term_worker = np.empty(len(order), np.int32)
    has_objects, has_subscriptions, has_reads = np.zeros(workers), np.zeros(workers), np.zeros(workers)
    for term in order:
        best, least = 0, np.inf
        for worker in range(workers):
            o = has_objects[worker] + objects[term]
            s = has_subscriptions[worker] + subscriptions[term]
            load = pair * o * s + object_rate * o + subscription_rate * s + has_reads[worker] + read_seconds[term]
            if load < least:
                best, least = worker, load
        term_worker[term] = best
        has_objects[best] += objects[term]
        has_subscriptions[best] += subscriptions[term]
        has_reads[best] += read_seconds[term]
    return term_worker


@kernel
def assign_by_metric(
    order: np.ndarray,
    given: np.ndarray,
    object_offsets: np.ndarray,
    object_terms: np.ndarray,
    subscription_offsets: np.ndarray,
    subscription_terms: np.ndarray,
    read_seconds: np.ndarray,
    workers: int,
    pair: float,
    object_rate: float,
    subscription_rate: float,
    affinity: float,
) -> np.ndarray:
    """Return for each term the worker whose load with it, plus `affinity` times the added load, is least: int32[terms].

    A worker gets each object and subscription once, no matter how many of its terms it has.

    order                                     int64[terms]         terms in the order in which they are assigned
    given                                     int32[terms]         worker of a term that is already assigned, else -1
    object_offsets, object_terms              int64[n+1], int32[]  terms of each object, from 0, distinct
    subscription_offsets, subscription_terms  terms of each subscription, likewise
    read_seconds                              float64[terms]       seconds to read the postings under each term
    pair, object_rate, subscription_rate      seconds, as in `planning.load_model.LoadRates`
    """
    term_objects = transpose(object_offsets, object_terms, len(order))
    term_subscriptions = transpose(subscription_offsets, subscription_terms, len(order))
    # A row is at no more workers than it has terms, so the room of its terms is enough to list them.
    object_workers, object_count = np.empty(len(object_terms), np.int32), np.zeros(len(object_offsets), np.int32)
    stored_workers = np.empty(len(subscription_terms), np.int32)
    stored_count = np.zeros(len(subscription_offsets), np.int32)
    has_objects, has_subscriptions, has_reads = np.zeros(workers), np.zeros(workers), np.zeros(workers)
    new_objects, new_subscriptions = np.empty(workers), np.empty(workers)
    term_worker = np.empty(len(order), np.int32)
    for term in order:
        # Count the objects and subscriptions that the term would bring to each worker.
        _count_new(term, term_objects, object_offsets, object_workers, object_count, new_objects)
        _count_new(term, term_subscriptions, subscription_offsets, stored_workers, stored_count, new_subscriptions)
        # Find the worker with the least score, unless the term is already assigned.
        best, least = 0, np.inf
        for worker in range(workers):
            o, s = has_objects[worker], has_subscriptions[worker]
            before = pair * o * s + object_rate * o + subscription_rate * s + has_reads[worker]
            o, s = o + new_objects[worker], s + new_subscriptions[worker]
            after = pair * o * s + object_rate * o + subscription_rate * s + has_reads[worker] + read_seconds[term]
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
        _add(term, best, term_objects, object_offsets, object_workers, object_count)
        _add(term, best, term_subscriptions, subscription_offsets, stored_workers, stored_count)
    return term_worker


@kernel
def _count_new(
    term: int,
    rows_of_terms: tuple[np.ndarray, np.ndarray],
    offsets: np.ndarray,
    reached: np.ndarray,
    count: np.ndarray,
    new: np.ndarray,
) -> None:
    """Write to `new` how many rows of a term each worker does not have yet.

    reached, count  the workers that have row r are reached[offsets[r] : offsets[r] + count[r]]
    """
    starts, rows = rows_of_terms
    # All rows of the term, less those that each worker has already.
    new[:] = starts[term + 1] - starts[term]
    for i in range(starts[term], starts[term + 1]):
        row = rows[i]
        for j in range(offsets[row], offsets[row] + count[row]):
            new[reached[j]] -= 1


@kernel
def _add(
    term: int,
    worker: int,
    rows_of_terms: tuple[np.ndarray, np.ndarray],
    offsets: np.ndarray,
    reached: np.ndarray,
    count: np.ndarray,
) -> None:
    """Record that a worker has the rows of a term."""
    starts, rows = rows_of_terms
    for i in range(starts[term], starts[term + 1]):
        row = rows[i]
        end = offsets[row] + count[row]
        known = False
        for j in range(offsets[row], end):
            known = known or reached[j] == worker
        if not known:
            reached[end] = worker
            count[row] += 1
