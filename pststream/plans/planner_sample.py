"""The sample that planners and the load model get: points, terms and boxes of objects and subscriptions, as arrays."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pststream.base.read_only import read_only
from pststream.base.sorted_keys import distinct_values

KERNEL_COLUMNS = ("lon", "lat", "terms", "post_terms")
"""Columns that come from Arrow or NumPy."""

POSTING_READS = 64
"""Units of `reads` that a posting counts as: a match may count as less than a posting."""


@dataclass(frozen=True)
class SampledQuestions:
    """Logged questions of the kinds `range` and `knn`.

    boxes         float64[n, 4]  west, south, east, north of each of the (one or two) boxes of each question
    word_offsets  int64[n+1]     slice of `words` of each box
    words         int64[m]       distinct term ids of the keywords of its question, ascending inside a box
    """

    boxes: np.ndarray
    word_offsets: np.ndarray
    words: np.ndarray


@dataclass(frozen=True)
class WorkloadSample:
    """Sampled objects and subscriptions of a period; the order of rows has no meaning. KERNEL_COLUMNS are read-only.

    lon, lat          float64[objects]    degrees
    term_offsets      int64[objects+1]    slice of `terms` of each object
    terms             int64[n]            distinct term ids of each object, ascending inside an object
    boxes             float64[pieces, 4]  west, south, east, north of each box of each live subscription
    piece_key         int64[pieces]       equal for the (one or two) boxes of one subscription
    post_offsets      int64[pieces+1]     slice of `post_terms` of each piece
    post_terms        int64[n]            terms of the clause that the piece is posted under, ascending inside a piece,
                                          the same for all pieces of a subscription
    postings          int32[n]            sampled postings that matching reads for each (object, term) of `terms`
    reads             int32[n]            the time that they take: POSTING_READS for each posting, plus the piece's
                                          `match_reads` if its box contains the object
    match_reads       int32[pieces]       time of a match of each piece, in units of `reads`; None: 0
    insertions        float               insertion requests of the period for each live subscription; 1 if the
                                          subscriptions are those that are inserted in the period, as in Definition 1
    deletions         float               deletion requests of the period for each live subscription
    object_scale      float               objects of the period for each sampled object (>= 1)
    subscription_scale float              subscriptions for each sampled subscription (>= 1)
    piece_unit        int32[pieces]       unit that the index records for each piece, -1 where none; None: nowhere
    questions         questions about the stored objects; None: none are logged
    """

    lon: np.ndarray
    lat: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray
    boxes: np.ndarray
    piece_key: np.ndarray
    post_offsets: np.ndarray
    post_terms: np.ndarray
    postings: np.ndarray
    reads: np.ndarray
    match_reads: np.ndarray | None = None
    insertions: float = 1.0
    deletions: float = 0.0
    object_scale: float = 1.0
    subscription_scale: float = 1.0
    piece_unit: np.ndarray | None = None
    questions: SampledQuestions | None = None

    def __post_init__(self) -> None:
        for name in KERNEL_COLUMNS:
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def objects(self) -> int:
        """Number of sampled objects."""
        return len(self.lon)

    @property
    def pieces(self) -> int:
        """Number of sampled boxes of subscriptions."""
        return len(self.boxes)

    @cached_property
    def subscriptions(self) -> int:
        """Number of sampled subscriptions; cached, since load adjustment reads it at each move."""
        return len(distinct_values(self.piece_key))

    @property
    def recorded_units(self) -> np.ndarray:
        """The recorded unit of each piece, -1 where there is none: int32[pieces]."""
        return np.full(self.pieces, -1, np.int32) if self.piece_unit is None else self.piece_unit

    @cached_property
    def posted_terms(self) -> np.ndarray:
        """The distinct terms of `post_terms`, ascending."""
        return distinct_values(self.post_terms)
