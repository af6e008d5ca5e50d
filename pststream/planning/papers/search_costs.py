"""Estimate what the search of a unit of a plan of `topk` subscriptions costs, from the words of a sample.

A unit looks up the words of each message that it gets, tests the postings of each word that it owns, by blocks, and
scores those that pass. A subscription keeps few of the messages, so of those with a frequent word few pass:

    cost = LOOK_UP * p + sum over the postings of the unit of (SCORED * min(f, MOST_SCORED) + TESTED * f)

p is the share of the messages that go to the unit, f that of those with the word of the posting. Where words occur
independently of each other, p = 1 - exp(-sum of f over the words of the unit).

Departure from Skype, Equations 15 and 16 (C = N x p, subscriptions times p): a message reads only the postings of its
own words, and a product is no sum over words. A run of rare words has a small p and a run of frequent words a great
one, so with N x p a unit of rare words got a thousandth of the work of one of frequent words. The unit with the words
that no sampled message has got nothing by N x p, and the most by measurement.
"""

from typing import NamedTuple

import numpy as np

LOOK_UP = 1.0
SCORED = 0.5
TESTED = 0.00125
MOST_SCORED = 5e-5
"""Costs, relative to that of a message that a unit gets, and the greatest share of the messages with which a posting is
scored. All four are fitted to the seconds of 128 units: four plans of `prefix` in `bench run topk-planners`.
"""


class SearchCosts(NamedTuple):
    """Sums over the words before each place in their order, float64[words + 1] each: f, and the cost of postings."""

    sent: np.ndarray
    searched: np.ndarray

    def of_run(self, start: int, end: int) -> float:
        """Return the cost of a unit that owns the words [start, end)."""
        sent, searched = self.sent[end] - self.sent[start], self.searched[end] - self.searched[start]
        return float(cost_of_unit(sent, searched))


def cost_of_unit(sent: np.ndarray, searched: np.ndarray) -> np.ndarray:
    """Return the cost of units: float64[n].

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
