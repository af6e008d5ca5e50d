"""Minimum cost migration: the cells to take from a worker so that enough load goes with as few bytes as can be.

Source: PS2Stream section V-A, phase II, Definitions 3 and 4. Four methods behind one contract:

    gr   greedy by size over load, O(n log n)
    dp   dynamic programming, exact where it fits into memory
    si   largest cells first; ra   cells at random: what the paper compares with
"""

from collections.abc import Callable

import numpy as np

from pststream.errors import UsageError
from pststream.kernels.planning.select_cells import (
    drop_redundant,
    find_cheapest_candidate,
    find_cheapest_subset,
    mark_candidate,
)

MOST_BITS = 1 << 34
"""Bits that dynamic programming may keep: 2 GiB."""

ROW_BITS = 64
"""Of each size, beside a bit for each cell: its load, as float64."""

WORST_ERROR = 0.01
"""Greatest part of the cost by which coarser sizes may make dynamic programming miss the least."""


def select_cells(method: str, loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """The cells to migrate.

    loads   float64[n]  load of each cell, at least 0
    sizes   int64[n]    bytes of the subscriptions of each cell, at least 0
    wanted  float64     load that must go, above 0
    seed    of `ra`
    Returns places int64[k], ascending; their loads add up to `wanted` or more. Raises UsageError for an unknown method,
    for more load than all the cells have, and where `dp` would need more memory than it may have.
    """
    if method not in METHODS:
        raise UsageError(f"method {method!r} is unknown", "one of: " + ", ".join(METHODS))
    useful = np.flatnonzero(loads > 0.0)
    if wanted > loads[useful].sum():
        raise UsageError(f"a load of {wanted:g} is wanted, the cells have {loads[useful].sum():g}", "take more cells")
    if wanted <= 0.0:
        return np.empty(0, np.int64)
    chosen = METHODS[method](loads[useful].astype(np.float64), sizes[useful].astype(np.int64), float(wanted), seed)
    return np.sort(useful[chosen]).astype(np.int64)


def greedy(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """GR: cells by size over load are taken while they stay below `wanted`; the cheapest way to complete them wins.

    Departure from the paper: of the answer, cells that the others can do without are dropped, the largest first.

    Never more than twice the least cost. A cheapest answer holds some cell that completes; take the first of them in
    the scan. It costs no more than that answer; and nor do the cells taken before it, as those that the answer has
    instead bring more load at no smaller relative cost.
    """
    order = _by_relative_cost(loads, sizes)
    last, _ = find_cheapest_candidate(order, loads, sizes, wanted)
    # Summed in this order, all cells together may miss `wanted` by a rounding.
    if last < 0:
        return order
    chosen = order[mark_candidate(order, loads, wanted, last)]
    chosen = chosen[np.argsort(-sizes[chosen], kind="stable")]
    return chosen[drop_redundant(chosen, loads, wanted)]


def dynamic(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """DP: the least cost. GR's answer bounds the sizes that are looked at.

    Departures from the paper, which keeps a table of n x P numbers: one row is rolled over the cells, with a bit for
    each place to go back by; and where these would not fit, sizes are rounded up to steps, which may miss the least by
    one step a cell. Raises UsageError where that could be more than WORST_ERROR of the cost.
    """
    order = _by_relative_cost(loads, sizes)
    last, bound = find_cheapest_candidate(order, loads, sizes, wanted)
    if last < 0:
        return order
    bits = len(loads) + ROW_BITS
    step = max(1, -(-bits * (bound + 1) // MOST_BITS))
    if step > 1 and len(loads) * step > WORST_ERROR * bound:
        raise UsageError(
            f"dp over {len(loads)} cells and {bound} bytes needs {bits * bound / 8e9:,.1f} GB,"
            f" and steps of {step} bytes could miss the least cost by more than {WORST_ERROR:.0%}",
            "use gr",
        )
    steps = -(-sizes // step)
    chosen = find_cheapest_subset(loads, steps, bound // step + (len(loads) if step > 1 else 0), wanted)
    return np.flatnonzero(chosen)


def largest_first(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """SI: the largest cells, until their load is enough."""
    return _until_enough(np.argsort(-sizes, kind="stable"), loads, wanted)


def at_random(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """RA: cells in random order, until their load is enough."""
    return _until_enough(np.random.default_rng([seed, 3]).permutation(len(loads)), loads, wanted)


def _by_relative_cost(loads: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.argsort(sizes / loads, kind="stable")


def _until_enough(order: np.ndarray, loads: np.ndarray, wanted: float) -> np.ndarray:
    enough = int(np.searchsorted(np.cumsum(loads[order]), wanted)) + 1
    return order[:enough]


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, float, int], np.ndarray]] = {
    "gr": greedy,
    "dp": dynamic,
    "si": largest_first,
    "ra": at_random,
}
