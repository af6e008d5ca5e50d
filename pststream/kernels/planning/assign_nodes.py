"""Merging nodes into as many partitions as there are workers."""

import numpy as np

from pststream.kernels.compile import kernel

LOWER = 1.0 - 1e-9
"""Less than this much lower is no improvement."""


@kernel
def merge_nodes(
    order: np.ndarray,
    objects: np.ndarray,
    subscriptions: np.ndarray,
    read_seconds: np.ndarray,
    rates: tuple[float, float, float],
    parts: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The partition of each node (int64[nodes]) and the load of each partition (float64[parts], seconds).

    order          int64[nodes]     the nodes, the most loaded first
    objects        float64[nodes]   objects of each node
    subscriptions  float64[nodes]   subscriptions of each node
    read_seconds   float64[nodes]   of the postings that its objects read
    rates          load of a pair, an object, a subscription

    A node goes where the load grows least, among equals to the least loaded; if that raises the greatest load over the
    least, to the least loaded partition instead. What two nodes share counts in both.

    Source: PS2Stream section IV-B, MergeNodesIntoPartitions.
    """
    pair = rates[0]
    of_objects, of_subscriptions, of_reads, load = np.zeros(parts), np.zeros(parts), np.zeros(parts), np.zeros(parts)
    place = np.empty(len(order), np.int64)
    for node in order:
        best, least, idlest = 0, np.inf, 0
        for part in range(parts):
            cross = pair * (of_objects[part] * subscriptions[node] + of_subscriptions[part] * objects[node])
            if cross < least or (cross == least and load[part] < load[best]):
                best, least = part, cross
            if load[part] < load[idlest]:
                idlest = part
        growth = _load(objects[node], subscriptions[node], read_seconds[node], rates) + least
        if best != idlest and _raises(load, best, growth):
            best = idlest
        of_objects[best] += objects[node]
        of_subscriptions[best] += subscriptions[node]
        of_reads[best] += read_seconds[node]
        load[best] = _load(of_objects[best], of_subscriptions[best], of_reads[best], rates)
        place[node] = best
    return place, load


@kernel
def _raises(load: np.ndarray, grown: int, growth: float) -> bool:
    """Whether a partition that grows so raises the greatest load over the least; one without load makes it infinite."""
    greatest, least, greatest_after, least_after = 0.0, np.inf, 0.0, np.inf
    for part in range(len(load)):
        after = load[part] + growth if part == grown else load[part]
        greatest, least = max(greatest, load[part]), min(least, load[part])
        greatest_after, least_after = max(greatest_after, after), min(least_after, after)
    return least > 0.0 and greatest_after * least > greatest * least_after


@kernel
def level_parts(
    place: np.ndarray,
    objects: np.ndarray,
    subscriptions: np.ndarray,
    read_seconds: np.ndarray,
    rates: tuple[float, float, float],
    parts: int,
    most: int,
) -> None:
    """Move a node out of the most loaded partition, or exchange one, while that lowers the greater load of the two.

    place  int64[nodes]   the partition of each node, changed in place
    most   steps at most
    The other arguments as in `merge_nodes`. Each step takes the move or exchange that lowers it most.
    """
    node_figures = np.column_stack((objects, subscriptions, read_seconds))
    held, load = np.zeros((parts, 3)), np.zeros(parts)
    for node in range(len(place)):
        held[place[node]] += node_figures[node]
    for part in range(parts):
        load[part] = _load(held[part, 0], held[part, 1], held[part, 2], rates)
    for _ in range(most):
        top = int(np.argmax(load))
        out, into, back = _best_step(top, place, node_figures, held, rates)
        if out < 0:
            break
        for node, source, target in ((out, top, into), (back, into, top)):
            if node >= 0:
                place[node] = target
                held[source] -= node_figures[node]
                held[target] += node_figures[node]
        for part in (top, into):
            load[part] = _load(held[part, 0], held[part, 1], held[part, 2], rates)


@kernel
def _best_step(
    top: int, place: np.ndarray, nodes: np.ndarray, held: np.ndarray, rates: tuple[float, float, float]
) -> tuple[int, int, int]:
    """The node to move out of partition `top`, where to, and the node to take back for it (-1: none).

    nodes, held  float64[nodes, 3], float64[parts, 3]  objects, subscriptions, seconds of reading
    """
    best, out, into, back = _load(held[top, 0], held[top, 1], held[top, 2], rates) * LOWER, -1, -1, -1
    for node in range(len(place)):
        if place[node] != top:
            continue
        o, s, r = nodes[node]
        rest = _load(held[top, 0] - o, held[top, 1] - s, held[top, 2] - r, rates)
        if rest >= best:
            continue
        for part in range(len(held)):
            worse = max(rest, _load(held[part, 0] + o, held[part, 1] + s, held[part, 2] + r, rates))
            if part != top and worse < best:
                best, out, into, back = worse, node, part, -1
        for other in range(len(place)):
            part = place[other]
            if part == top:
                continue
            more_o, more_s, more_r = o - nodes[other, 0], s - nodes[other, 1], r - nodes[other, 2]
            worse = max(
                _load(held[top, 0] - more_o, held[top, 1] - more_s, held[top, 2] - more_r, rates),
                _load(held[part, 0] + more_o, held[part, 1] + more_s, held[part, 2] + more_r, rates),
            )
            if worse < best:
                best, out, into, back = worse, node, part, other
    return out, into, back


@kernel
def _load(objects: float, subscriptions: float, read_seconds: float, rates: tuple[float, float, float]) -> float:
    return rates[0] * objects * subscriptions + rates[1] * objects + rates[2] * subscriptions + read_seconds
