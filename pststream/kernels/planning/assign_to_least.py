"""Assign parts in a given order, each to the unit with the least load (Graham's greedy algorithm)."""

import numpy as np

from pststream.kernels.compile import kernel


@kernel
def assign_to_least(costs: np.ndarray, loads: np.ndarray) -> np.ndarray:
    """Assign each part to the unit with the least load, of equal ones to the first, and add its cost to that load.

    costs  float64[parts]   in the order of assignment
    loads  float64[units]   changed
    Returns the unit of each part: int32[parts].

    Source: DkM-SKS, Algorithm 1; Graham, Bounds on multiprocessing timing anomalies, 1969. The loads are a heap, so
    a part costs the logarithm of the number of units.
    """
    heap = np.argsort(loads, kind="mergesort").astype(np.int32)
    units = np.empty(len(costs), np.int32)
    for part in range(len(costs)):
        unit = heap[0]
        units[part] = unit
        loads[unit] += costs[part]
        _sink(heap, loads)
    return units


@kernel
def _sink(heap: np.ndarray, loads: np.ndarray) -> None:
    """Move the unit at the top of the heap down to its place; of equal loads the lesser unit is above."""
    place, unit = 0, heap[0]
    while True:
        child = 2 * place + 1
        if child >= len(heap):
            break
        if child + 1 < len(heap) and _is_above(heap[child + 1], heap[child], loads):
            child += 1
        if not _is_above(heap[child], unit, loads):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = unit


@kernel
def _is_above(one: int, other: int, loads: np.ndarray) -> bool:
    return loads[one] < loads[other] or (loads[one] == loads[other] and one < other)
