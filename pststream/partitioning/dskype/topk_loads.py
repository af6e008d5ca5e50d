"""Count what each unit of a plan of `topk` subscriptions holds and receives, by a sample (Skype, section 7.3)."""

from dataclasses import dataclass

import numpy as np

from pststream.domain.imbalance import imbalance_of
from pststream.domain.topk_plan import TopkPlan
from pststream.partitioning.dskype.topk_sample import TopkSample


@dataclass(frozen=True)
class TopkLoads:
    """What the units of a plan hold and receive.

    subscriptions  int64[units]    sampled subscriptions that each unit holds
    messages       int64[units]    sampled messages that go to it
    load           float64[units]  C = N x p: subscriptions times the share of the messages (Equations 15 and 16)
    replication    units that hold a subscription, on average (table 5)
    copies         units that a message goes to, on average: the communication cost
    """

    subscriptions: np.ndarray
    messages: np.ndarray
    load: np.ndarray
    replication: float
    copies: float

    @property
    def imbalance(self) -> float:
        """Greatest over least load of a unit."""
        return imbalance_of(self.load)


def count_loads(sample: TopkSample, plan: TopkPlan) -> TopkLoads:
    """Return the loads of a plan on a sample."""
    stored = np.array([len(stored_by(sample, plan, unit)) for unit in range(plan.units)], np.int64)
    _, unit = plan.route(sample.message_offsets, sample.message_terms)
    sent = np.bincount(unit, minlength=plan.units)
    load = stored * sample.subscription_scale * sent / max(sample.messages, 1)
    return TopkLoads(
        stored, sent, load, stored.sum() / max(sample.subscriptions, 1), sent.sum() / max(sample.messages, 1)
    )


def stored_by(sample: TopkSample, plan: TopkPlan, unit: int) -> np.ndarray:
    """Return the sampled subscriptions that a unit holds, ascending: int64[]."""
    is_own = plan.owns(unit, sample.terms)
    if plan.is_prefix:
        is_own &= sample.in_prefix
    here = plan.holds(unit, sample.keys, sample.lon, sample.lat)
    has_own = np.zeros(sample.subscriptions, bool)
    has_own[sample.owners[is_own]] = True
    return np.flatnonzero(here & has_own)
