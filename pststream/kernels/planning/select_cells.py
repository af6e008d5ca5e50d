"""Choosing cells to migrate: the scans of greedy selection and of dynamic programming (balancing/cell_selection.py)."""

import numpy as np

from pststream.kernels.compile import kernel


@kernel
def greedy_scan(order, loads, sizes, wanted):
    """The best of the greedy candidates.

    order   int64[n]     cells by relative cost, cheapest first
    wanted  float64      load that must be reached
    Cells are taken as long as their load stays below `wanted`; any other would complete what was taken before it, at a
    cost. Returns the place in `order` of the completing cell of the cheapest candidate, and its cost; -1 if none
    completes.
    """
    taken_load, taken_size = 0.0, 0
    best, best_cost = -1, 0
    for place in range(len(order)):
        cell = order[place]
        if taken_load + loads[cell] < wanted:
            taken_load += loads[cell]
            taken_size += sizes[cell]
        elif best < 0 or taken_size + sizes[cell] < best_cost:
            best, best_cost = place, taken_size + sizes[cell]
    return best, best_cost


@kernel
def taken_before(order, loads, wanted, last):
    """The cells that the scan took before place `last`, and the one at it: places in `order`, bool[n]."""
    chosen = np.zeros(len(order), np.bool_)
    load = 0.0
    for place in range(last):
        cell = order[place]
        if load + loads[cell] < wanted:
            load += loads[cell]
            chosen[place] = True
    chosen[last] = True
    return chosen


@kernel
def without_spare(cells, loads, wanted):
    """Of these cells, in this order, each is dropped that the others can do without: what stays, bool[cells]."""
    kept = np.ones(len(cells), np.bool_)
    load = 0.0
    for cell in cells:
        load += loads[cell]
    for place in range(len(cells)):
        if load - loads[cells[place]] >= wanted:
            load -= loads[cells[place]]
            kept[place] = False
    return kept


@kernel
def cheapest_subset(loads, sizes, bound, wanted):
    """The cells of least total size whose load is at least `wanted`, if a size of `bound` is enough: bool[n].

    sizes  int64[n], in steps; bound  int64, steps
    One row of greatest loads by size, rolled over the cells, and a bit for each (cell, size) to go back by:
    n * bound / 8 bytes. Empty if the bound is too small.
    """
    cells = len(loads)
    words = (bound >> 6) + 1
    best = np.zeros(bound + 1, np.float64)
    took = np.zeros((cells, words), np.uint64)
    for cell in range(cells):
        size, load = sizes[cell], loads[cell]
        for total in range(bound, size - 1, -1):
            with_it = best[total - size] + load
            if with_it > best[total]:
                best[total] = with_it
                took[cell, total >> 6] |= np.uint64(1) << np.uint64(total & 63)
    total = 0
    while total <= bound and best[total] < wanted:
        total += 1
    if total > bound:
        return np.zeros(0, np.bool_)
    chosen = np.zeros(cells, np.bool_)
    for cell in range(cells - 1, -1, -1):
        if (took[cell, total >> 6] >> np.uint64(total & 63)) & np.uint64(1):
            chosen[cell] = True
            total -= sizes[cell]
    return chosen
