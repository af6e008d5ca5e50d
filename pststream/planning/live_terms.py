"""Find the live terms of sampled objects (a sampled subscription is posted under them), and the objects with one."""

from dataclasses import replace

import numpy as np

from pststream.base.integer_hash import hash_to_unit
from pststream.kernels.matching.term_table import make_term_table
from pststream.kernels.planning.count_loads import find_term_positions, mark_objects_with_live_terms
from pststream.plans.planner_sample import WorkloadSample

SEED = 29


def find_posted_terms(sample: WorkloadSample) -> tuple[np.ndarray, np.ndarray]:
    """Return the terms under which the sample posts a subscription, and the position in them of each term of an object.

    Returns posted int64[T], ascending, and positions int32[len(sample.terms)], -1 for a term that is not posted.
    """
    return sample.posted_terms, find_positions(sample.posted_terms, sample.terms)


def find_positions(posted: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Return the position of each of `terms` (int64[n]) in `posted` (int64, distinct), or -1: int32[n]."""
    return np.asarray(find_term_positions(terms, make_term_table(posted, np.arange(len(posted)))))


def mark_live_terms(sample: WorkloadSample) -> np.ndarray:
    """Mark the terms of objects under which the sample posts a subscription: bool[len(sample.terms)]."""
    return find_posted_terms(sample)[1] >= 0


def mark_live_objects(sample: WorkloadSample) -> np.ndarray:
    """Mark the objects that have a live term, and so are sent to some worker: bool[objects]."""
    return np.asarray(mark_objects_with_live_terms(sample.term_offsets, mark_live_terms(sample)))


def group_pieces_by_subscription(sample: WorkloadSample) -> tuple[np.ndarray, np.ndarray]:
    """Return an order that keeps the pieces of a subscription together, and the number of each subscription.

    Returns order int64[pieces], subscriptions int64[pieces], from 0 and ascending.
    """
    order = np.argsort(sample.piece_key, kind="stable")
    keys = sample.piece_key[order]
    return order, np.cumsum(np.diff(keys, prepend=keys[:1]) != 0)


def expect_unsampled_reads(sample: WorkloadSample) -> np.ndarray:
    """Return how many postings that the sample lacks each (object, term) reads, expected: float64[len(terms)].

    They are as many, for each sampled posting, as the objects with the term read on average.
    """
    _, term = np.unique(sample.terms, return_inverse=True)
    mean = np.bincount(term, sample.postings) / np.maximum(np.bincount(term), 1)
    return np.asarray((sample.subscription_scale - 1.0) * mean[term])


def keep_terms(sample: WorkloadSample, kept: np.ndarray) -> WorkloadSample:
    """Return a sample with only the terms that `kept` (bool[len(terms)]) marks, and the objects that have one."""
    offsets = np.append(0, np.cumsum(kept))[sample.term_offsets]
    has = np.diff(offsets) > 0
    return replace(
        sample,
        lon=sample.lon[has],
        lat=sample.lat[has],
        term_offsets=np.append(0, offsets[1:][has]),
        terms=sample.terms[kept],
        postings=sample.postings[kept],
        reads=sample.reads[kept],
    )


def drop_terms_without_postings(sample: WorkloadSample) -> WorkloadSample:
    """Return a sample without the terms under which no subscription is posted near their object.

    The filter of live terms is by place, so such an object goes to no worker for the term, while the load model counts
    a term that is posted anywhere. A term without a sampled posting nearby may have one that the sample lacks: it stays
    with a probability (Poisson), by a hash of its place in the sample, so the same sample has the same result.
    """
    by_chance = -np.expm1(-expect_unsampled_reads(sample))
    return keep_terms(sample, (sample.postings > 0) | (hash_to_unit(np.arange(len(sample.terms)), SEED) < by_chance))
