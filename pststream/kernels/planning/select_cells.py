"""Select raster cells to migrate, with enough load and the least size: greedy scan, exact dynamic programming.

These are the inner loops of the methods in `planning/balancing/cell_selection.py`.
"""

import numpy as np

from pststream.kernels.compile import kernel


@kernel
def find_cheapest_candidate(order, loads, sizes, wanted):
    """Find the cheapest candidate of greedy selection.

    order   int64[n]     cells by relative cost, cheapest first
    wanted  float64      load that must be reached
    A cell is added as long as the load stays below `wanted`. Each other cell completes a candidate, which is the cells
    added before it and the cell itself. Returns the position in `order` of the last cell of the cheapest candidate (-1:
    there is no candidate), and the cost of this candidate.
    """
    load, size = 0.0, 0
    best, best_cost = -1, 0
    for position in range(len(order)):
        cell = order[position]
        if load + loads[cell] < wanted:
            load += loads[cell]
            size += sizes[cell]
        elif best < 0 or size + sizes[cell] < best_cost:
            best, best_cost = position, size + sizes[cell]
    return best, best_cost


@kernel
def mark_candidate(order, loads, wanted, last):
    """Mark the cells of the candidate that is completed at position `last` of `order`: bool[n]."""
    chosen = np.zeros(len(order), np.bool_)
    load = 0.0
    for position in range(last):
        cell = order[position]
        if load + loads[cell] < wanted:
            load += loads[cell]
            chosen[position] = True
    chosen[last] = True
    return chosen


@kernel
def drop_redundant(cells, loads, wanted):
    """Drop, in this order, each cell that the load can do without to reach `wanted`; mark the rest: bool[cells]."""
    kept = np.ones(len(cells), np.bool_)
    load = 0.0
    for cell in cells:
        load += loads[cell]
    for position in range(len(cells)):
        if load - loads[cells[position]] >= wanted:
            load -= loads[cells[position]]
            kept[position] = False
    return kept


@kernel
def find_cheapest_subset(loads, sizes, bound, wanted):
    """Mark the cells of least total size whose load is at least `wanted`: bool[n], empty if `bound` is too small.

    sizes  int64[n], in steps
    bound  int64, steps: the greatest total size that is looked at
    Keeps one row of greatest loads by size, updated for each cell, and a bit for each (cell, size) to follow the
    choices back: n * bound / 8 bytes.
    """
    cells = len(loads)
    words = (bound >> 6) + 1
    best = np.zeros(bound + 1, np.float64)
    uses_cell = np.zeros((cells, words), np.uint64)
    # Update the greatest load of each total size with one cell after another.
    for cell in range(cells):
        size, load = sizes[cell], loads[cell]
        for total in range(bound, size - 1, -1):
            with_it = best[total - size] + load
            if with_it > best[total]:
                best[total] = with_it
                uses_cell[cell, total >> 6] |= np.uint64(1) << np.uint64(total & 63)
    # Find the least size that reaches the load.
    total = 0
    while total <= bound and best[total] < wanted:
        total += 1
    if total > bound:
        return np.zeros(0, np.bool_)
    # Follow the bits back from it.
    chosen = np.zeros(cells, np.bool_)
    for cell in range(cells - 1, -1, -1):
        if (uses_cell[cell, total >> 6] >> np.uint64(total & 63)) & np.uint64(1):
            chosen[cell] = True
            total -= sizes[cell]
    return chosen
