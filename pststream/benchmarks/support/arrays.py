"""Synthetic workloads as the kernels and the tables take them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pststream.generator.synthetic_arrays import SyntheticObjects, SyntheticSubscriptions, term_ids
from pststream.matching.object_batch import ObjectBatch, sort_objects
from pststream.names import NEVER_US


@dataclass(frozen=True)
class Frequencies:
    """How many of the objects have each term; unknown terms have none."""

    ids: np.ndarray
    counts: np.ndarray

    def of(self, terms: np.ndarray) -> np.ndarray:
        """Frequency of each term id: int64."""
        place = np.minimum(np.searchsorted(self.ids, terms), len(self.ids) - 1)
        return np.where(self.ids[place] == terms, self.counts[place], 0)


def frequencies(objects: SyntheticObjects) -> Frequencies:
    """Term frequencies in the objects, ranked as a plan's vocabulary ranks them."""
    ids, counts = np.unique(term_ids(objects.terms), return_counts=True)
    return Frequencies(ids, counts)


def object_batch(objects: SyntheticObjects) -> ObjectBatch:
    """All of the objects, probed in full."""
    terms = term_ids(objects.terms)
    count = len(objects.lon)
    return sort_objects(
        objects.lon, objects.lat, np.zeros(count, np.int64), objects.term_offsets, terms, np.zeros(len(terms), np.int32)
    )


def clause_lists(subscriptions: SyntheticSubscriptions) -> pa.ListArray:
    """Clauses of each subscription: list<list<int64>>."""
    inner = pa.ListArray.from_arrays(
        pa.array(subscriptions.term_offsets.astype(np.int32)), pa.array(term_ids(subscriptions.terms))
    )
    return pa.ListArray.from_arrays(pa.array(subscriptions.clause_offsets.astype(np.int32)), inner)


def index_table(subscriptions: SyntheticSubscriptions, clauses: pa.ListArray) -> pa.Table:
    """Rows of `worker_index` of subscriptions that are always valid, as one worker would hold them."""
    count = len(subscriptions.boxes)
    sides = {side: subscriptions.boxes[:, place] for place, side in enumerate(("west", "south", "east", "north"))}
    return pa.table(
        {
            "subscription_key": np.arange(count),
            **sides,
            "circle": pa.nulls(count, pa.list_(pa.float64())),
            "clauses": clauses,
            "created_at": np.full(count, -NEVER_US),
            "end_at": np.full(count, NEVER_US),
        }
    )
