"""Divide the objects of a node among four children by text, for SSTD's planners."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.routing.tree_walk import add_gains, choose_child


@kernel
def divide_by_text(
    objects: np.ndarray, offsets: np.ndarray, terms: np.ndarray, asked: np.ndarray, shares: np.ndarray, children: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give each object to the child whose workload it increases least, which then has its keywords.

    objects         int64[k]               the objects, in the order in which they are given
    offsets, terms  int64[n+1], int32[m]   terms of all objects, as places in `asked`
    asked           int64[t]               queries of the node that have each term
    shares          float64[l+1]           share of all queries with 0, 1, .. keywords
    Returns child int8[k], objects of each child int64[children], and uint8[t]: bit c is set if child c has the term.
    """
    child = np.empty(len(objects), np.int8)
    counts, known, gains = np.zeros(children, np.int64), np.zeros(children, np.int64), np.empty(children, np.int64)
    holders = np.zeros(len(asked), np.uint8)
    total = asked.sum()
    for k in range(len(objects)):
        first, last = offsets[objects[k]], offsets[objects[k] + 1]
        gains[:] = 0
        for t in range(first, last):
            add_gains(asked[terms[t]], holders[terms[t]], gains)
        chosen = choose_child(gains, known, counts, 0, total, shares)
        child[k] = chosen
        counts[chosen] += 1
        known[chosen] += gains[chosen]
        for t in range(first, last):
            holders[terms[t]] |= np.uint8(1 << chosen)
    return child, counts, holders
