"""List the live terms of each sampled object and subscription, for planners that partition by text alone."""

from dataclasses import dataclass

import numpy as np

from pststream.base.sorted_keys import distinct_values
from pststream.planning.live_terms import find_posted_terms, group_pieces_by_subscription
from pststream.plans.planner_sample import WorkloadSample


@dataclass(frozen=True)
class TermUse:
    """The live terms of a sample, and the objects and subscriptions that have them; other terms cause no load.

    ids                   int64[T]                term ids, ascending; the other arrays number terms by position here
    object_offsets        int64[objects+1]        slice of `object_terms` of each object
    object_terms          int32[n]                distinct terms of each object
    reads                 int64[T]                `reads` of the objects under each term
    subscription_offsets  int64[subscriptions+1]  slice of `subscription_terms` of each subscription
    subscription_terms    int32[m]                distinct terms that each subscription is posted under
    """

    ids: np.ndarray
    object_offsets: np.ndarray
    object_terms: np.ndarray
    reads: np.ndarray
    subscription_offsets: np.ndarray
    subscription_terms: np.ndarray

    @property
    def objects(self) -> np.ndarray:
        """Number of objects that have each term: int64[T]."""
        return np.bincount(self.object_terms, minlength=len(self.ids))

    @property
    def subscriptions(self) -> np.ndarray:
        """Number of subscriptions that are posted under each term: int64[T]."""
        return np.bincount(self.subscription_terms, minlength=len(self.ids))


def collect_term_use(sample: WorkloadSample) -> TermUse:
    """List the live terms of objects and subscriptions; a subscription with two boxes counts once."""
    # Find the live terms, and number the subscriptions.
    ids, positions = find_posted_terms(sample)
    before = np.concatenate([[0], np.cumsum(positions >= 0)])
    order, groups = group_pieces_by_subscription(sample)
    subscription = np.empty(len(order), dtype=np.int64)
    subscription[order] = groups
    count = int(groups[-1]) + 1 if len(groups) else 0
    # Make the pairs (subscription, term) distinct.
    terms = max(len(ids), 1)
    posts = distinct_values(
        np.repeat(subscription, np.diff(sample.post_offsets)) * terms + np.searchsorted(ids, sample.post_terms)
    )
    return TermUse(
        ids=ids,
        object_offsets=before[sample.term_offsets],
        object_terms=positions[positions >= 0],
        reads=np.bincount(positions[positions >= 0], sample.reads[positions >= 0], len(ids)).astype(np.int64),
        subscription_offsets=np.searchsorted(posts, np.arange(count + 1) * terms),
        subscription_terms=(posts % terms).astype(np.int32),
    )
