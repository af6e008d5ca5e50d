"""Divide the words, by their frequencies, into runs whose greatest cost is least (Skype, section 7.3.3)."""

from bisect import bisect_right
from functools import partial

import numpy as np

from pststream.planning.papers.search_costs import SearchCosts

HALVINGS = 50
"""Of the interval in which the greatest cost is sought: more digits than a sum of costs has."""


def cut_words(costs: SearchCosts, runs: int) -> np.ndarray:
    """Return the first place of each run but the first: int64[runs - 1], ascending.

    Each run takes as many words as the greatest cost allows, but leaves one for each run after it, if there are enough.

    Source: the partition problem of section 7.3.3. Departures: the cost is that of `search_costs`; its greatest value
    is made least, not its variance (Equation 17), as the slowest unit bounds the throughput. This is exact, where
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
