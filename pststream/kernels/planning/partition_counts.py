"""Choose by dynamic programming how many partitions each tree node is cut into, so that the sum of loads is least."""

import numpy as np

from pststream.kernels.compile import kernel

LOWER = 1.0 - 1e-9
"""Factor below which a sum must lie to count as less than another: equal sums are rounded differently."""


@kernel
def choose_partition_counts(start: np.ndarray, loads: np.ndarray, partitions: int) -> np.ndarray:
    """Return the number of partitions of each node for which the sum of all loads is least: int64[nodes], at least 1.

    start, loads  int64[nodes+1], float64[n]   sum of loads of node i in k partitions: loads[start[i] + k - 1]
    partitions    partitions in all, at least as many as nodes; fewer are used where the nodes take no more, or where
                  more would add to the sum
    Of equal sums, which may differ by the factor LOWER, the one with the most partitions is chosen; of these the one
    with the fewest for the last node, then for the last but one, and so on.

    Source: PS2Stream section IV-B, L[i, j] <- min over k of L[i-1, j-k] + C[i, k]. Here j counts the partitions beyond
    one for each node, so a table has partitions - nodes + 1 columns.
    """
    nodes = len(start) - 1
    spare = partitions - nodes
    least = np.full(spare + 1, np.inf)
    least[0] = 0.0
    chosen = np.zeros((nodes, spare + 1), np.int32)
    # Fill one row of the table for each node: the least sum of the nodes so far with j spare partitions.
    for i in range(nodes):
        options = min(start[i + 1] - start[i], spare + 1)
        now = np.full(spare + 1, np.inf)
        picks = chosen[i]
        for k in range(options):
            load = loads[start[i] + k]
            for j in range(k, spare + 1):
                total = least[j - k] + load
                if total < now[j] * LOWER:
                    now[j] = total
                    picks[j] = k
        least = now
    # Choose the greatest number of spare partitions with the least sum.
    j, bound = spare, least.min()
    while least[j] * LOWER > bound:
        j -= 1
    # Follow the choices back from the last node.
    counts = np.empty(nodes, np.int64)
    for i in range(nodes - 1, -1, -1):
        counts[i] = chosen[i, j] + 1
        j -= chosen[i, j]
    return counts
