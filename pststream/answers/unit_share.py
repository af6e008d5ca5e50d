"""Choose the `topk` subscriptions that a unit of a plan holds, and the words under which it does."""

from typing import NamedTuple

import numpy as np

from pststream.answers.scored_segment import ScoredSubscriptions, take_rows
from pststream.planning.papers.loose_prefix import mark_prefix
from pststream.plans.topk_plan import TopkPlan


class UnitShare(NamedTuple):
    """The share of a unit of a plan."""

    plan: TopkPlan
    unit: int

    def mark(self, subscriptions: ScoredSubscriptions) -> np.ndarray:
        """Return which words of the subscriptions have postings at the unit, wherever they are: bool[m]."""
        some = subscriptions
        is_own = self.plan.owns(self.unit, some.terms)
        if self.plan.is_prefix:
            is_own &= mark_prefix(some.alpha, some.threshold, some.offsets, some.terms, some.weights)
        return is_own

    def select(self, subscriptions: ScoredSubscriptions) -> ScoredSubscriptions:
        """Return those that the unit holds: their place is in its part of the space, and one of their words marked."""
        some = subscriptions
        is_stored = np.zeros(len(some.key), bool)
        is_stored[np.repeat(np.arange(len(some.key)), np.diff(some.offsets))[self.mark(some)]] = True
        is_stored &= self.plan.holds(self.unit, some.key, some.lon, some.lat)
        return take_rows(some, np.flatnonzero(is_stored))
