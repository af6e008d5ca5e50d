"""Divide the space by a kd-tree whose leaves cost alike (Skype, section 7.3.2, Algorithm 3)."""

import numpy as np

from pststream.base.sorted_keys import distinct_values
from pststream.planning.papers.balanced_cuts import choose_cut
from pststream.plans.topk_plan import middle_of


def cut_space(places: np.ndarray, messages: np.ndarray, leaves: int) -> np.ndarray:
    """Return the cuts of a kd-tree: float64[leaves - 1], see `domain/topk_plan.TopkPlan`.

    places, messages  float64[n, 2], float64[q, 2]: longitude and latitude of subscriptions and of messages

    Source: Algorithm 3: a node is cut by turns at a longitude and a latitude of one of its subscriptions, where the
    costs of the two sides differ least. Departures: those of `choose_cut`; a node without subscriptions is cut at 0.
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
