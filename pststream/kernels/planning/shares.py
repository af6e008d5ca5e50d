"""Sharing parts out among nodes by dynamic programming."""

import numpy as np

from pststream.kernels.compile import kernel


@kernel
def share_parts(start: np.ndarray, loads: np.ndarray, parts: int) -> np.ndarray:
    """How many parts each node is cut into so that the sum of all loads is least: int64[nodes], each at least 1.

    start, loads  int64[nodes+1], float64[n]   sum of loads of node i in k parts: loads[start[i] + k - 1]
    parts         parts in all, at least as many as nodes; fewer are given out where the nodes take no more, or where
                  more would add to the sum
    Of equal sums the one with fewer parts for the later nodes is taken.

    Source: PS2Stream section IV-B, L[i, j] <- min over k of L[i-1, j-k] + C[i, k]. Here j counts the parts beyond one a
    node, so a table has parts - nodes + 1 columns.
    """
    nodes = len(start) - 1
    spare = parts - nodes
    least = np.full(spare + 1, np.inf)
    least[0] = 0.0
    chosen = np.zeros((nodes, spare + 1), np.int32)
    for i in range(nodes):
        options = min(start[i + 1] - start[i], spare + 1)
        now = np.full(spare + 1, np.inf)
        picks = chosen[i]
        for k in range(options):
            load = loads[start[i] + k]
            for j in range(k, spare + 1):
                total = least[j - k] + load
                if total < now[j]:
                    now[j] = total
                    picks[j] = k
        least = now
    given = np.empty(nodes, np.int64)
    j = 0
    for left in range(spare + 1):
        if least[left] <= least[j]:
            j = left
    for i in range(nodes - 1, -1, -1):
        given[i] = chosen[i, j] + 1
        j -= chosen[i, j]
    return given
