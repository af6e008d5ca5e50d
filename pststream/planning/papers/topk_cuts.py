"""Cut words into runs (by costs, or by C = N x p) and the space into a kd-tree, for the planners of DSkype."""

from bisect import bisect_right
from functools import partial
from typing import NamedTuple

import numpy as np

from pststream.base.arrays import distinct_values
from pststream.planning.papers.topk_sample import SearchCosts
from pststream.plans.topk_plan import middle_of


def choose_cut(
    subscriptions: tuple[np.ndarray, np.ndarray], messages: tuple[np.ndarray, np.ndarray], parts: tuple[int, int]
) -> int:
    """Return the cut at which the costs of a part of both sides differ least.

    subscriptions, messages  int64[c] each: the counts on the lower and the upper side of each cut
    parts                    how many parts each side becomes

    Source: Skype, Equations 15 and 16 and Algorithms 3 and 4: the cost of a side is C = N x p, subscriptions times
    share of the messages. Departures: a side that becomes more parts is to cost as many times more, as the number of
    workers need not be a power of two; of equal cuts the one whose subscriptions are divided most evenly, then the
    first, so that a sample without messages is divided too.
    """
    lower, upper = (count * seen.astype(np.float64) for count, seen in zip(subscriptions, messages))
    costs = np.abs(lower * parts[1] - upper * parts[0])
    uneven = np.abs(subscriptions[0] * parts[1] - subscriptions[1] * parts[0])
    cheapest = np.flatnonzero(costs == costs.min())
    return int(cheapest[np.argmin(uneven[cheapest])])


class Words(NamedTuple):
    """Words of subscriptions or messages: the owner of each, ascending, and its place in the order: int64[m] each."""

    owners: np.ndarray
    places: np.ndarray


def cut_words_by_product(stored: Words, sent: Words, words: int, runs: int) -> np.ndarray:
    """Return the first place of each run but the first: int64[runs - 1], ascending; `words`: how many there are.

    stored, sent  the words under which subscriptions are held, and those of messages

    Source: Skype, Algorithm 4: a run is cut after the word where the costs of the two sides differ least; subscriptions
    and messages count on each side that has one of their words. Departures: those of `choose_cut`; of a run of one
    word, the upper side has none. The cost of a run is not the sum of the costs of its sides, so runs may cost
    differently though the sides of each cut cost alike. Planners use `cut_words` by default.
    """
    cuts = np.zeros(runs - 1, np.int64)
    stack = [(0, runs, 0, words)]
    while stack:
        low, high, start, end = stack.pop()
        if high - low == 1:
            continue
        middle, cut = middle_of(low, high), end
        if end - start > 1:
            parts = (middle - low, high - middle)
            cut = start + 1 + choose_cut(_counts(stored, start, end), _counts(sent, start, end), parts)
        cuts[middle - 1] = cut
        stack += [(low, middle, start, cut), (middle, high, cut, end)]
    return cuts


def _counts(words: Words, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many owners have a word before, and from, each place of a run but the first: int64[end-start-1]."""
    inside = (words.places >= start) & (words.places < end)
    owners, places = words.owners[inside], words.places[inside] - start
    if not len(owners):
        none = np.zeros(end - start - 1, np.int64)
        return none, none
    begins = np.flatnonzero(np.diff(owners, prepend=owners[0] - 1))
    first, last = np.minimum.reduceat(places, begins), np.maximum.reduceat(places, begins)
    before = np.cumsum(np.bincount(first, minlength=end - start))[:-1]
    upto = np.cumsum(np.bincount(last, minlength=end - start))[:-1]
    return before, len(begins) - upto


HALVINGS = 50
"""Of the interval in which the greatest cost is sought: more digits than a sum of costs has."""


def cut_words(costs: SearchCosts, runs: int) -> np.ndarray:
    """Return the first place of each run but the first: int64[runs - 1], ascending.

    Each run takes as many words as the greatest cost allows, but leaves one for each run after it, if there are enough.

    Source: Skype, the partition problem of section 7.3.3. Departures: the cost is that of `SearchCosts`; its greatest
    value is made least, not its variance (Equation 17), as the slowest unit bounds the throughput. This is exact, where
    Algorithm 4 is heuristic: it cuts recursively where the costs of the two sides differ least, but costs of sides are
    not sums of the costs of their runs.
    """
    low, high = 0.0, costs.of_run(0, len(costs.sent) - 1)
    for _ in range(HALVINGS):
        bound = (low + high) / 2
        cuts = _fill(costs, runs, bound)
        if costs.of_run(cuts[-1], len(costs.sent) - 1) <= bound:
            high = bound
        else:
            low = bound
    return np.array(_fill(costs, runs, high)[1:], np.int64)


def _fill(costs: SearchCosts, runs: int, bound: float) -> list[int]:
    """Return the first place of each run, if all but the last are as long as a cost of at most `bound` allows."""
    words, starts = len(costs.sent) - 1, [0]
    for later in range(runs - 1, 0, -1):
        start = starts[-1]
        most = max(words - later, start)
        end = bisect_right(range(words + 1), bound, start, most + 1, key=partial(costs.of_run, start)) - 1
        starts.append(end)
    return starts


def cut_space(places: np.ndarray, messages: np.ndarray, leaves: int) -> np.ndarray:
    """Return the cuts of a kd-tree: float64[leaves - 1], see `plans/topk_plan.TopkPlan`.

    places, messages  float64[n, 2], float64[q, 2]: longitude and latitude of subscriptions and of messages

    Source: Skype, section 7.3.2, Algorithm 3: a node is cut by turns at a longitude and a latitude of one of its
    subscriptions, where the costs of the two sides differ least. Departures: those of `choose_cut`; a node without
    subscriptions is cut at 0.
    """
    cuts = np.zeros(leaves - 1)
    stack = [(0, leaves, 0, places, messages)]
    while stack:
        low, high, depth, inside, sent = stack.pop()
        if high - low == 1:
            continue
        middle, axis = middle_of(low, high), depth % 2
        values, seen = np.sort(inside[:, axis]), np.sort(sent[:, axis])
        candidates = distinct_values(values)
        if len(candidates):
            stored, known = (np.searchsorted(ascending, candidates, "right") for ascending in (values, seen))
            sides = (stored, len(values) - stored), (known, len(seen) - known)
            cuts[middle - 1] = candidates[choose_cut(*sides, (middle - low, high - middle))]
        lower, lower_sent = (rows[:, axis] <= cuts[middle - 1] for rows in (inside, sent))
        stack.append((low, middle, depth + 1, inside[lower], sent[lower_sent]))
        stack.append((middle, high, depth + 1, inside[~lower], sent[~lower_sent]))
    return cuts
