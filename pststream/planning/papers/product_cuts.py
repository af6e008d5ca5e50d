"""Divide the words into runs as the paper does, where C = N x p of both sides differs least (Skype, Algorithm 4)."""

from typing import NamedTuple

import numpy as np

from pststream.planning.papers.balanced_cuts import choose_cut
from pststream.plans.topk_plan import middle_of


class Words(NamedTuple):
    """Words of subscriptions or messages: the owner of each, ascending, and its place in the order: int64[m] each."""

    owners: np.ndarray
    places: np.ndarray


def cut_words_by_product(stored: Words, sent: Words, words: int, runs: int) -> np.ndarray:
    """Return the first place of each run but the first: int64[runs - 1], ascending; `words`: how many there are.

    stored, sent  the words under which subscriptions are held, and those of messages

    Source: Algorithm 4: a run is cut after the word where the costs of the two sides differ least; a subscription
    counts on each side that has one of its words, a message too. Departures: those of `choose_cut`; of a run of one
    word, the upper side has none. The cost of a run is not the sum of the costs of its sides, so runs may cost
    differently though the sides of each cut cost alike. `word_cuts` has the cost that planners take by default.
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
