"""Count what each worker would do for the objects of a sample, in an index of the pieces that it stores."""

from typing import NamedTuple

import numpy as np

from pststream.planning.dispatch import make_dispatch
from pststream.planning.live_terms import expect_unsampled_reads, keep_terms
from pststream.planning.load_model import CostModel
from pststream.planning.posting_reads import keep_pieces
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import WorkloadSample


class RunCounts(NamedTuple):
    """Work of each worker, not scaled: float64[workers] each.

    objects        objects that are sent to it
    subscriptions  subscriptions that it stores
    reads          `reads` of the sample for the pieces that it stores
    """

    objects: np.ndarray
    subscriptions: np.ndarray
    reads: np.ndarray

    def loads(self, sample: WorkloadSample, cost: CostModel) -> np.ndarray:
        """Return the seconds of each worker for the period of the sample: float64[workers]."""
        return cost.rates(sample).load(*self)


def run_sample(sample: WorkloadSample, plan: PartitionPlan) -> RunCounts:
    """Send the pieces and objects of a sample to the workers as a batch does, and count the work of each worker.

    A worker stores the pieces that touch its part of the space and of the terms, and its objects read the postings of
    these alone. The load model counts the postings of all workers in the index cells of an object instead, though the
    more compact the regions are, the fewer of these a worker stores. An object is sent to a worker where it reads a
    posting; the postings that the sample lacks send it there with a probability (Poisson).

    Not for plans that share by subscription: there the load model counts the postings of each worker.
    """
    dispatch = make_dispatch(plan)
    offsets, stored_at = dispatch.workers_of_sample(sample)
    piece = np.repeat(np.arange(sample.pieces), np.diff(offsets))
    unit, _ = dispatch.units_of_objects(sample.lon, sample.lat, sample.term_offsets, sample.terms)
    served_by, unsampled = plan.unit_worker[unit], expect_unsampled_reads(sample)
    counts = np.zeros((len(RunCounts._fields), plan.workers))
    for worker in range(plan.workers):
        mine = served_by == worker
        stored = np.zeros(sample.pieces, bool)
        stored[piece[stored_at == worker]] = True
        part = keep_pieces(keep_terms(sample, mine), stored)
        read = _sum_by_object(part.postings, part.term_offsets)
        shares = np.where(read > 0, 1.0, -np.expm1(-_sum_by_object(unsampled[mine], part.term_offsets)))
        counts[:, worker] = np.sort(shares).sum(), part.subscriptions, part.reads.sum()
    return RunCounts(*counts)


def _sum_by_object(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the sum of the values of each object's terms: float64[objects]."""
    objects = len(offsets) - 1
    return np.bincount(np.repeat(np.arange(objects), np.diff(offsets)), values, objects)
