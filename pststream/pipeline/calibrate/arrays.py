"""Convert synthetic objects and subscriptions to object batches and `worker_index` rows, the input of matching."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.sorted_keys import look_up
from pststream.matching.object_batch import ObjectBatch, sort_objects
from pststream.queries.shapes.registry import PIECE_COLUMNS, SIDES
from pststream.workloads.synthetic_arrays import SyntheticObjects, SyntheticSubscriptions, term_ids


@dataclass(frozen=True)
class Frequencies:
    """Number of objects with each term; 0 for unknown terms."""

    ids: np.ndarray
    counts: np.ndarray

    def of(self, terms: np.ndarray) -> np.ndarray:
        """Return the frequency of each term id: int64."""
        return look_up(terms, self.ids, self.counts, 0)


def frequencies(objects: SyntheticObjects) -> Frequencies:
    """Count the objects with each term, ranked as in a plan's vocabulary."""
    ids, counts = np.unique(term_ids(objects.terms), return_counts=True)
    return Frequencies(ids, counts)


def object_batch(objects: SyntheticObjects) -> ObjectBatch:
    """Return all objects as one batch, each probed with all its terms."""
    terms = term_ids(objects.terms)
    count = len(objects.lon)
    return sort_objects(
        objects.lon, objects.lat, np.zeros(count, np.int64), objects.term_offsets, terms, np.zeros(len(terms), np.int32)
    )


def clause_lists(subscriptions: SyntheticSubscriptions) -> pa.ListArray:
    """Return the clauses of each subscription: list<list<int64>>."""
    inner = pa.ListArray.from_arrays(
        pa.array(subscriptions.term_offsets.astype(np.int32)), pa.array(term_ids(subscriptions.terms))
    )
    return pa.ListArray.from_arrays(pa.array(subscriptions.clause_offsets.astype(np.int32)), inner)


def index_table(subscriptions: SyntheticSubscriptions, clauses: pa.ListArray) -> pa.Table:
    """Return the rows of `worker_index` of one worker for subscriptions that are always valid."""
    count = len(subscriptions.boxes)
    sides = {side: subscriptions.boxes[:, place] for place, side in enumerate(SIDES)}
    return pa.table(
        {
            "subscription_key": np.arange(count),
            **{column.name: pa.nulls(count, column.type) for column in PIECE_COLUMNS},
            **sides,
            "clauses": clauses,
            "created_at": np.full(count, names.NO_TIME),
            "end_at": np.full(count, names.NEVER_US),
            "kind": pa.nulls(count, pa.string()),
            "unit": pa.nulls(count, pa.int64()),
        }
    )
