"""A sample of both streams as arrays: what a planner sees."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class WorkloadSample:
    """Objects and subscriptions of a period; rows are independent, their order carries no meaning.

    lon, lat          float64[objects]    degrees
    term_offsets      int64[objects+1]    slice of `terms` of each object
    terms             int64[n]            distinct term ids of each object, ascending inside an object
    boxes             float64[pieces, 4]  west, south, east, north of each box of each inserted subscription
    piece_key         int64[pieces]       equal for the (one or two) boxes of one subscription
    post_offsets      int64[pieces+1]     slice of `post_terms` of each piece
    post_terms        int64[n]            terms of the clause under which it is indexed, ascending inside a piece
    reads             int32[n]            sampled postings that each (object, term) of `terms` reads when it is matched,
                                          and `match_reads` for each of them whose box holds the object
    match_reads       int                 postings that can be read in the time that one match takes
    deletions         int                 deletion requests of the period, assumed spread as the insertions are
    object_scale      float               objects of the period for each sampled one (>= 1)
    subscription_scale float              subscriptions for each sampled one (>= 1)
    """

    lon: np.ndarray
    lat: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray
    boxes: np.ndarray
    piece_key: np.ndarray
    post_offsets: np.ndarray
    post_terms: np.ndarray
    reads: np.ndarray
    match_reads: int = 0
    deletions: int = 0
    object_scale: float = 1.0
    subscription_scale: float = 1.0

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
        """Number of sampled subscriptions; counted once, as balancers ask for it at each move."""
        return len(np.unique(self.piece_key))

    @cached_property
    def posted_terms(self) -> np.ndarray:
        """The distinct terms of `post_terms`, ascending; sorted once."""
        return np.unique(self.post_terms)
