"""Divide numbers into parts with nearly equal sums by the differencing method of Karmarkar and Karp.

The planners and balancers of SSTD assign leaves to workers by it.
"""

import heapq
from collections.abc import Sequence

import numpy as np

from pststream.planning.planners.rectangle_cuts import Rectangle


def divide_evenly(numbers: np.ndarray, parts: int) -> np.ndarray:
    """Return the part of each number, from 0: int64[n]; the sums of the parts are nearly equal.

    numbers  float64[n], at least 0
    parts    at least 1; with fewer numbers, the last parts have none

    Each number starts as a division of its own. The two divisions whose sums differ most are joined, the greatest sum
    of the one with the least of the other and so on, until one is left. Ties go to the division that was made first.
    Parts are numbered by their first number.

    Source: Karmarkar and Karp, "The differencing method of set partitioning", Report UCB/CSD 82/113, 1982, which SSTD,
    section 4.1.2, uses for its leaves. Departures: SSTD does not say how ties are broken or more than two parts are
    joined; ties as above, and parts are joined in reverse order, the usual form for more than two.
    """
    queue = []
    for number, value in enumerate(numbers.tolist()):
        members = [[number], *([] for _ in range(parts - 1))]
        queue.append(_rank(number, np.array([value, *(parts - 1) * [0.0]]), members))
    heapq.heapify(queue)
    for made in range(len(numbers), 2 * len(numbers) - 1):
        (_, _, sums, members), (_, _, other_sums, others) = heapq.heappop(queue), heapq.heappop(queue)
        members = [[*one, *other] for one, other in zip(members, reversed(others))]
        heapq.heappush(queue, _rank(made, sums + other_sums[::-1], members))
    part = np.zeros(len(numbers), np.int64)
    if queue:
        filled = sorted(sorted(positions) for positions in queue[0][3] if positions)
        for number, positions in enumerate(filled):
            part[positions] = number
    return part


def _rank(made: int, sums: np.ndarray, members: list[list[int]]) -> tuple[float, int, np.ndarray, list[list[int]]]:
    """Return a division as the queue has it: by the difference of its sums, the part with the greatest sum first.

    sums     float64[parts]
    members  positions of the numbers in each part
    """
    order = np.argsort(-sums, kind="stable")
    sums = sums[order]
    return -float(sums[0] - sums[-1]), made, sums, [members[index] for index in order.tolist()]


def divide_leaves(workloads: Sequence[float], rectangles: Sequence[Rectangle], workers: int) -> np.ndarray:
    """Return the worker of each leaf, as in `divide_evenly`, by its workload; by its cells if all workloads are 0."""
    numbers = workloads if any(workloads) else [float(rectangle.cells) for rectangle in rectangles]
    return divide_evenly(np.array(numbers), workers)
