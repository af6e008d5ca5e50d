"""What of a sample counts: its live terms, the objects that have one, the subscriptions behind its pieces."""

import numpy as np

from pststream.domain.planner_sample import WorkloadSample
from pststream.kernels.matching.build_segment import hash_table
from pststream.kernels.planning.count_loads import find_term_positions, mark_objects_with_live_terms


def find_posted_terms(sample: WorkloadSample) -> tuple[np.ndarray, np.ndarray]:
    """The terms under which the sample posts a subscription, and the place of each of the objects' terms among them.

    Returns posted int64[T] ascending, places int32[len(sample.terms)], -1 for a term that is not posted.
    """
    return sample.posted_terms, find_positions(sample.posted_terms, sample.terms)


def find_positions(posted: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """The place of each of `terms` (int64[n]) among those of `posted` (int64, distinct), or -1: int32[n]."""
    bits = max(3, (2 * len(posted)).bit_length())
    slots, places = hash_table(posted, bits)
    return np.asarray(find_term_positions(terms, slots, places, bits))


def mark_live_terms(sample: WorkloadSample) -> np.ndarray:
    """Whether the sample posts a subscription under each of the objects' terms: bool[len(sample.terms)]."""
    return find_posted_terms(sample)[1] >= 0


def mark_live_objects(sample: WorkloadSample) -> np.ndarray:
    """Whether each object has a live term, so that it goes to some worker: bool[objects]."""
    return np.asarray(mark_objects_with_live_terms(sample.term_offsets, mark_live_terms(sample)))


def group_pieces_by_subscription(sample: WorkloadSample) -> tuple[np.ndarray, np.ndarray]:
    """An order in which the pieces of a subscription stand side by side, and the subscription of each, from 0.

    Returns order int64[pieces], groups int64[pieces] (ascending).
    """
    order = np.argsort(sample.piece_key, kind="stable")
    keys = sample.piece_key[order]
    return order, np.cumsum(np.diff(keys, prepend=keys[:1]) != 0)
