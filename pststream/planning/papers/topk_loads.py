"""Count what each unit of a plan of `topk` subscriptions holds and receives, by a sample (Skype, section 7.3)."""

from dataclasses import dataclass

import numpy as np

from pststream.planning.papers.search_costs import cost_of_postings, cost_of_unit
from pststream.planning.papers.topk_sample import TopkSample
from pststream.plans.imbalance import imbalance_of
from pststream.plans.topk_plan import TopkPlan


@dataclass(frozen=True)
class TopkLoads:
    """What the units of a plan hold and receive.

    subscriptions  int64[units]    sampled subscriptions that each unit holds
    messages       int64[units]    sampled messages that go to it
    load           float64[units]  cost of a message at the unit, on average, see `search_costs`
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
    _, unit = find_stored(sample, plan)
    stored = np.bincount(unit, minlength=plan.units)
    _, unit = plan.route(sample.message_offsets, sample.message_terms)
    sent = np.bincount(unit, minlength=plan.units)
    replication, copies = stored.sum() / max(sample.subscriptions, 1), sent.sum() / max(sample.messages, 1)
    return TopkLoads(stored, sent, _estimate_costs(sample, plan), replication, copies)


def _estimate_costs(sample: TopkSample, plan: TopkPlan) -> np.ndarray:
    """Return the cost of each unit: float64[units]."""
    word, unit = plan.route(np.arange(len(sample.words) + 1), sample.words)
    sent = np.bincount(unit, sample.shares[word], plan.units)
    chosen = sample.in_prefix if plan.is_prefix else slice(None)
    owners, terms = sample.owners[chosen], sample.terms[chosen]
    places = sample.keys[owners], sample.lon[owners], sample.lat[owners]
    posting, unit = plan.find_units(*places, np.arange(len(terms) + 1), terms)
    order = np.argsort(sample.words)
    word = order[np.searchsorted(sample.words, terms[posting], sorter=order)]
    searched = np.bincount(unit, cost_of_postings(sample.shares)[word], plan.units) * sample.subscription_scale
    return cost_of_unit(sent, searched)


def find_stored(sample: TopkSample, plan: TopkPlan) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of a sampled subscription and a unit that holds it, by unit and subscription: int64[p] each."""
    offsets, terms = sample.offsets, sample.terms
    if plan.is_prefix:
        offsets, terms = np.append(0, np.cumsum(sample.in_prefix))[offsets], terms[sample.in_prefix]
    return plan.find_units(sample.keys, sample.lon, sample.lat, offsets, terms)
