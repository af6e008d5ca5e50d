"""Select the raster cells (or blocks) that a worker hands over: enough load at least migration cost, by four methods.

Source: PS2Stream section V-A, phase II, Definitions 3 and 4.
"""

from collections.abc import Callable

import numpy as np

from pststream.base.errors import UsageError
from pststream.base.texts import byte_size
from pststream.kernels.planning.cell_loads import (
    drop_redundant,
    find_cheapest_candidate,
    find_cheapest_subset,
    mark_candidate,
)

MAX_BITS = 1 << 34
"""Maximum number of bits that dynamic programming keeps: 2 GiB."""

ROW_BITS = 64
"""Each entry of the table needs one bit per cell and these 64 bits for its load."""

MAX_ERROR = 0.01
"""With rounded sizes, dynamic programming may cost at most this share more than the optimum."""


def select_cells(method: str, loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """Select the cells to migrate.

    loads   float64[n]  load of each cell, at least 0
    sizes   int64[n]    bytes of the subscriptions of each cell, at least 0
    wanted  float64     load to migrate, above 0
    seed    of `ra`
    Returns indices int64[k], ascending; the loads of these cells add up to `wanted` or more. Raises UsageError for an
    unknown method, for more load than all the cells have, and if `dp` would need too much memory.
    """
    if method not in METHODS:
        raise UsageError(f"method {method!r} is unknown", "one of: " + ", ".join(METHODS))
    loaded = np.flatnonzero(loads > 0.0)
    if wanted > loads[loaded].sum():
        raise UsageError(f"a load of {wanted:g} is wanted, the cells have {loads[loaded].sum():g}", "take more cells")
    if wanted <= 0.0:
        return np.empty(0, np.int64)
    chosen = METHODS[method](loads[loaded].astype(np.float64), sizes[loaded].astype(np.int64), float(wanted), seed)
    return np.sort(loaded[chosen]).astype(np.int64)


def select_greedily(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """GR: add cells by size over load while the load stays below `wanted`; return the cheapest way to complete them.

    Departure from the paper: cells of the result that the others do not need are dropped, the largest first.

    A candidate is the cells added so far plus one cell that brings the load to `wanted`. The cheapest costs at most
    twice the optimum: an optimal solution contains a cell that completes a candidate; take the first such cell in the
    scan. This cell costs at most the optimum. The cells added before it together cost at most the optimum too, as the
    other cells of the solution bring more load at no smaller relative cost.
    """
    order = _by_relative_cost(loads, sizes)
    last, _ = find_cheapest_candidate(order, loads, sizes, wanted)
    # All cells together may miss `wanted` by a rounding error of the sum.
    if last < 0:
        return order
    chosen = order[mark_candidate(order, loads, wanted, last)]
    chosen = chosen[np.argsort(-sizes[chosen], kind="stable")]
    return chosen[drop_redundant(chosen, loads, wanted)]


def select_by_dynamic_programming(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """DP: return the cells of least cost. The result of GR bounds the total size.

    Departures from the paper, which keeps a table of n x P numbers: one row is updated for each cell, with a bit for
    each entry to follow the choices back. If the bits would not fit into memory, sizes are rounded up to steps, which
    may miss the least cost by one step for each cell. Raises UsageError if that could exceed MAX_ERROR of the cost.
    """
    order = _by_relative_cost(loads, sizes)
    last, bound = find_cheapest_candidate(order, loads, sizes, wanted)
    if last < 0:
        return order
    bits = len(loads) + ROW_BITS
    step = max(1, -(-bits * (bound + 1) // MAX_BITS))
    if step > 1 and len(loads) * step > MAX_ERROR * bound:
        raise UsageError(
            f"dp over {len(loads)} cells and {bound} bytes needs {byte_size(bits * bound / 8)},"
            f" and steps of {step} bytes could miss the least cost by more than {MAX_ERROR:.0%}",
            "use gr",
        )
    steps = -(-sizes // step)
    chosen = find_cheapest_subset(loads, steps, bound // step + (len(loads) if step > 1 else 0), wanted)
    return np.flatnonzero(chosen)


def select_largest_first(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """SI: return the largest cells, until their load is enough."""
    return _until_enough(np.argsort(-sizes, kind="stable"), loads, wanted)


def select_at_random(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """RA: return cells in random order, until their load is enough."""
    return _until_enough(np.random.default_rng([seed, 3]).permutation(len(loads)), loads, wanted)


def _by_relative_cost(loads: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.argsort(sizes / loads, kind="stable")


def _until_enough(order: np.ndarray, loads: np.ndarray, wanted: float) -> np.ndarray:
    """Return the first cells of an order whose load reaches `wanted`."""
    enough = int(np.searchsorted(np.cumsum(loads[order]), wanted)) + 1
    return order[:enough]


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, float, int], np.ndarray]] = {
    "gr": select_greedily,
    "dp": select_by_dynamic_programming,
    "si": select_largest_first,
    "ra": select_at_random,
}
