"""Find the live terms of sampled objects (a sampled subscription is posted under them), and the objects with one."""

import numpy as np

from pststream.domain.planner_sample import WorkloadSample
from pststream.kernels.matching.term_table import make_term_table
from pststream.kernels.planning.count_loads import find_term_positions, mark_objects_with_live_terms


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
