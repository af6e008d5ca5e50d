"""Choose the cut whose sides cost alike, each in proportion to the parts that it is still to be divided into."""

import numpy as np


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
