"""Sample of `topk` subscriptions and messages, loose prefixes, and the loads of units, for DSkype's planners."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pststream.base.arrays import distinct_values
from pststream.kernels.scored.index_arrays import FULL_NEED, MARGIN
from pststream.plans.imbalance import imbalance_of
from pststream.plans.topk_plan import TopkPlan


def mark_prefix(
    alpha: np.ndarray, thresholds: np.ndarray, offsets: np.ndarray, terms: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return which words are in the loose prefix of their subscription: bool[m].

    alpha       float64[n]  share of the place in the score
    thresholds  float32[n]  greatest value that enters, a negative score; infinity: all that share a word
    offsets     int[n+1]    slice of `terms` of each subscription
    terms       int64[m]    its words, in any order
    weights     float32[m]  their weights

    The words of a subscription have the order of the index: the greatest weight first, then by id. The loose prefix is
    the shortest one without which no message enters: a message that shares only words after it scores less than the
    threshold, wherever it is. A prefix grows when the threshold loosens.

    Source: Skype, section 7.3.4 (Definition 12, Equation 18). Departures: the words after the prefix add to the cosine
    at most the norm of their weights, which is never greater than the paper's sum; the threshold is that of the buffer,
    as section 6.2 has it, and not the score of the k-th of Equation 18. MARGIN more than float32 rounds is left.
    """
    owner = np.repeat(np.arange(len(alpha)), np.diff(offsets))
    order = np.lexsort((terms, -weights, owner))
    squares = weights[order].astype(np.float64) ** 2
    before = np.append(0.0, np.cumsum(squares))
    rest = before[offsets[1:]][owner] - before[:-1]
    whole = before[offsets[1:]] - before[offsets[:-1]]
    need = np.maximum(-thresholds.astype(np.float64) - alpha - MARGIN, FULL_NEED)
    marked = np.empty(len(terms), bool)
    marked[order] = (1.0 - alpha[owner]) * np.sqrt(rest / whole[owner]) >= need[owner]
    return marked


LOOK_UP = 1.0
SCORED = 0.5
TESTED = 0.00125
MOST_SCORED = 5e-5
"""Costs, relative to that of a message that a unit gets, and the greatest share of the messages with which a posting is
scored. All four are fitted to the seconds of 128 units: four plans of `prefix` in `bench run topk-planners`.
"""


class SearchCosts(NamedTuple):
    """Sums over the words before each position: f of `cost_of_unit`, and costs of postings; float64[words + 1] each."""

    sent: np.ndarray
    searched: np.ndarray

    def of_run(self, start: int, end: int) -> float:
        """Return the cost of a unit that owns the words [start, end)."""
        sent, searched = self.sent[end] - self.sent[start], self.searched[end] - self.searched[start]
        return float(cost_of_unit(sent, searched))


def cost_of_unit(sent: np.ndarray, searched: np.ndarray) -> np.ndarray:
    """Return the cost of units: float64[n].

    A unit looks up the words of each message that it gets, tests the postings of each word that it owns, by blocks, and
    scores those that pass. A subscription keeps few of the messages, so of those with a frequent word few pass:

        cost = LOOK_UP * p + sum over the postings of the unit of (SCORED * min(f, MOST_SCORED) + TESTED * f)

    p is the share of the messages that go to the unit, f that of those with the word of the posting. Where words occur
    independently of each other, p = 1 - exp(-sum of f over the words of the unit).

    Departure from Skype, Equations 15 and 16 (C = N x p, subscriptions times p): a message reads only the postings of
    its own words, and a product is no sum over words. By N x p a unit of rare words gets a thousandth of the work of
    one of frequent words, and the unit with the words that no sampled message has gets nothing, but the most by
    measurement.

    sent      float64[n]  sum of f over the words of the unit
    searched  float64[n]  cost of its postings
    """
    return np.asarray(LOOK_UP * -np.expm1(-sent) + searched)


def sum_costs(shares: np.ndarray, postings: np.ndarray) -> SearchCosts:
    """Return the sums for words in their order.

    shares    float64[n]  share of the messages with each word
    postings  float64[n]  subscriptions that are held under it
    """
    return SearchCosts(*(np.append(0.0, np.cumsum(one)) for one in (shares, postings * cost_of_postings(shares))))


def cost_of_postings(shares: np.ndarray) -> np.ndarray:
    """Return the cost of a posting of each word: float64[n]; shares: see `sum_costs`."""
    return SCORED * np.minimum(shares, MOST_SCORED) + TESTED * shares


def estimate_shares(counts: np.ndarray, messages: int) -> np.ndarray:
    """Return the share of all messages with each word, by a sample: float64[n], greater than 0.

    counts    int64[n]  sampled messages with the word
    messages  sampled messages

    Source: Good and Turing: words that no sampled message has are together as frequent as those that one has. They
    share this evenly. One more message is counted, with one word that is new, so that no share is 0.
    """
    once, is_new = np.count_nonzero(counts == 1), counts == 0
    left = counts * (1.0 - once / (counts.sum() + 1))
    left[is_new] = (once + 1) / max(int(is_new.sum()), 1)
    return left / (messages + 1)


@dataclass(frozen=True)
class TopkSample:
    """Sampled `topk` subscriptions, n of them, and messages, q of them; the order of rows has no meaning.

    keys             int64[n]    keys of the subscriptions
    lon, lat         float64[n]  degrees
    alpha            float64[n]  share of the place in the score
    thresholds       float32[n]  greatest value (negative score) that enters; infinity: all that share a word
    offsets          int64[n+1]  slice of `terms` of each subscription
    terms            int64[m]    term ids of its words, each once
    weights          float32[m]  their weights
    message_lon, message_lat      float64[q]
    message_offsets, message_terms   int64[q+1], int64[]: the words of each message, each once
    subscription_scale            subscriptions for each sampled one (>= 1)
    """

    keys: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    alpha: np.ndarray
    thresholds: np.ndarray
    offsets: np.ndarray
    terms: np.ndarray
    weights: np.ndarray
    message_lon: np.ndarray
    message_lat: np.ndarray
    message_offsets: np.ndarray
    message_terms: np.ndarray
    subscription_scale: float = 1.0

    @property
    def subscriptions(self) -> int:
        """Number of sampled subscriptions."""
        return len(self.keys)

    @property
    def messages(self) -> int:
        """Number of sampled messages."""
        return len(self.message_lon)

    @cached_property
    def points(self) -> np.ndarray:
        """Longitude and latitude of the subscriptions: float64[n, 2]."""
        return np.column_stack([self.lon, self.lat])

    @cached_property
    def message_points(self) -> np.ndarray:
        """Longitude and latitude of the messages: float64[q, 2]."""
        return np.column_stack([self.message_lon, self.message_lat])

    @cached_property
    def owners(self) -> np.ndarray:
        """The subscription of each of `terms`: int64[m]."""
        return np.repeat(np.arange(self.subscriptions), np.diff(self.offsets))

    @cached_property
    def message_owners(self) -> np.ndarray:
        """The message of each of `message_terms`."""
        return np.repeat(np.arange(self.messages), np.diff(self.message_offsets))

    @cached_property
    def in_prefix(self) -> np.ndarray:
        """Which of `terms` are in the loose prefix of their subscription: bool[m]."""
        return mark_prefix(self.alpha, self.thresholds, self.offsets, self.terms, self.weights)

    @cached_property
    def words(self) -> np.ndarray:
        """All words of the sample, the least frequent in messages first, then by id: int64[w]."""
        return self._counted[0]

    @cached_property
    def shares(self) -> np.ndarray:
        """The estimated share of all messages with each of `words`: float64[w]."""
        return estimate_shares(self._counted[1], self.messages)

    @cached_property
    def _counted(self) -> tuple[np.ndarray, np.ndarray]:
        words = distinct_values(np.concatenate([self.terms, self.message_terms]))
        counts = np.bincount(np.searchsorted(words, self.message_terms), minlength=len(words))
        order = np.lexsort((words, counts))
        return words[order], counts[order]


@dataclass(frozen=True)
class TopkLoads:
    """What the units of a plan hold and receive.

    subscriptions  int64[units]    sampled subscriptions that each unit holds
    messages       int64[units]    sampled messages that go to it
    load           float64[units]  cost of a message at the unit, on average, see `cost_of_unit`
    replication    units that hold a subscription, on average (Skype, table 5)
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
    # Estimate the cost of each unit.
    word, unit = plan.route(np.arange(len(sample.words) + 1), sample.words)
    shares = np.bincount(unit, sample.shares[word], plan.units)
    chosen = sample.in_prefix if plan.is_prefix else slice(None)
    owners, terms = sample.owners[chosen], sample.terms[chosen]
    places = sample.keys[owners], sample.lon[owners], sample.lat[owners]
    posting, unit = plan.find_units(*places, np.arange(len(terms) + 1), terms)
    order = np.argsort(sample.words)
    word = order[np.searchsorted(sample.words, terms[posting], sorter=order)]
    searched = np.bincount(unit, cost_of_postings(sample.shares)[word], plan.units) * sample.subscription_scale
    return TopkLoads(stored, sent, cost_of_unit(shares, searched), replication, copies)


def find_stored(sample: TopkSample, plan: TopkPlan) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of a sampled subscription and a unit that holds it, by unit and subscription: int64[p] each."""
    offsets, terms = sample.offsets, sample.terms
    if plan.is_prefix:
        offsets, terms = np.append(0, np.cumsum(sample.in_prefix))[offsets], terms[sample.in_prefix]
    return plan.find_units(sample.keys, sample.lon, sample.lat, offsets, terms)
