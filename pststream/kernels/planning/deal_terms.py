"""Dealing terms to workers one by one, the load of a worker being that of Definition 1."""

import numpy as np

from pststream.kernels.compile import kernel


@kernel
def transpose(offsets: np.ndarray, columns: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows in which each of `count` columns stands.

    offsets, columns  int64[rows+1], int32[n]   columns of each row
    Returns offsets int64[count+1], rows int32[n], ascending inside a column.
    """
    starts = np.zeros(count + 1, np.int64)
    for i in range(len(columns)):
        starts[columns[i] + 1] += 1
    for column in range(count):
        starts[column + 1] += starts[column]
    at = starts.copy()
    rows = np.empty(len(columns), np.int32)
    for row in range(len(offsets) - 1):
        for i in range(offsets[row], offsets[row + 1]):
            rows[at[columns[i]]] = row
            at[columns[i]] += 1
    return starts, rows


@kernel
def deal_by_frequency(
    order: np.ndarray,
    objects: np.ndarray,
    subscriptions: np.ndarray,
    read_seconds: np.ndarray,
    workers: int,
    pair: float,
    object_rate: float,
    subscription_rate: float,
) -> np.ndarray:
    """The worker that is the least loaded with each term, if its terms shared no object or subscription: int32[terms].

    order                   int64[terms]   terms as they are dealt
    objects, subscriptions  int64[terms]   that have each term
    read_seconds            float64[terms] of the postings that objects read under each term
    pair, object_rate, subscription_rate   seconds, as in `workload.cost.LoadRates`
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
def deal_by_spread(
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
    """The worker whose load with each term, plus `affinity` times what the term adds to it, is least: int32[terms].

    A worker gets each object and subscription once, whatever number of its terms it has.

    order                                     int64[terms]         terms as they are dealt
    given                                     int32[terms]         worker of a term where it is settled, else -1
    object_offsets, object_terms              int64[n+1], int32[]  terms of each object, from 0, distinct
    subscription_offsets, subscription_terms  the same of each subscription
    read_seconds                              float64[terms]       of the postings that objects read under each term
    pair, object_rate, subscription_rate      seconds, as in `workload.cost.LoadRates`
    """
    term_objects = transpose(object_offsets, object_terms, len(order))
    term_subscriptions = transpose(subscription_offsets, subscription_terms, len(order))
    object_workers, object_count = np.empty(len(object_terms), np.int32), np.zeros(len(object_offsets), np.int32)
    stored_workers = np.empty(len(subscription_terms), np.int32)
    stored_count = np.zeros(len(subscription_offsets), np.int32)
    has_objects, has_subscriptions, has_reads = np.zeros(workers), np.zeros(workers), np.zeros(workers)
    new_objects, new_subscriptions = np.empty(workers), np.empty(workers)
    term_worker = np.empty(len(order), np.int32)
    for term in order:
        _count_new(term, term_objects, object_offsets, object_workers, object_count, new_objects)
        _count_new(term, term_subscriptions, subscription_offsets, stored_workers, stored_count, new_subscriptions)
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
    """Write to `new` how many rows of a term do not reach each worker yet.

    reached, count  the workers that row r reaches are reached[offsets[r] : offsets[r] + count[r]]
    """
    starts, rows = rows_of_terms
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
    """Note that the rows of a term reach a worker."""
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
