"""Define what the pipeline needs of a kind whose answers are the k best objects, beside its contract in `kinds`.

The index that finds candidates is one of two. If no term statistics weigh its values, the worker index does, as for
`range`: by regions that the kind gives. Else the index of scores (`scored_index`) of each bucket does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.search.best_objects import BestObjects
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import Clauses


class RankedQuestions(NamedTuple):
    """Standing queries of one kind, asked about stored objects, q of them.

    numbers  float64[q,most]  the numbers of the kind, see `RankedAnswers`
    k        int64[q]         greatest number of objects
    clauses                   of each; none: every object
    after    int64[q,2]       ts and key; objects with greater (ts, key) count
    up_to    int64[q,2]       ts and key; objects up to this ts and up to this key count
    """

    numbers: np.ndarray
    k: np.ndarray
    clauses: Clauses
    after: np.ndarray
    up_to: np.ndarray


@dataclass(frozen=True)
class IndexedReach:
    """How the worker index finds the candidates of a kind.

    regions   (numbers, thresholds float32[n]): the region that an object must lie in to enter each answer, as columns
              of regions (shapes/registry.request_schema); no two pieces of one have the same south-western corner
    values    (numbers of each candidate's subscription, lon, lat): their values, float32[n]
    """

    regions: Callable[[np.ndarray, np.ndarray], pa.RecordBatch] = field(repr=False)
    values: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] = field(repr=False)


@dataclass(frozen=True)
class RankedKind:
    """A kind in the pipeline.

    find_best   the best objects for each question, by the value and then the newest first
    indexed     None, of `topk` alone: the index of scores finds its candidates
    """

    find_best: Callable[[ObjectSnapshot, RankedQuestions], BestObjects] = field(repr=False)
    indexed: IndexedReach | None = None
