"""Merging nodes into as many partitions as there are workers."""

import numpy as np

from pststream.kernels.compile import kernel

LOWER = 1.0 - 1e-9
"""Less than this much lower is no improvement."""


@kernel
def merge_nodes(
    order: np.ndarray, objects: np.ndarray, subscriptions: np.ndarray, rates: tuple[float, float, float], parts: int
) -> tuple[np.ndarray, np.ndarray]:
    """The partition of each node (int64[nodes]) and the load of each partition (float64[parts], seconds).

    order          int64[nodes]     the nodes, the most loaded first
    objects        float64[nodes]   objects of each node
    subscriptions  float64[nodes]   subscriptions of each node
    rates          load of a pair, an object, a subscription

    A node goes where the load grows least, among equals to the least loaded; if that raises the greatest load over the
    least, to the least loaded partition instead. What two nodes share counts in both.

    Source: PS2Stream section IV-B, MergeNodesIntoPartitions.
    """
    pair = rates[0]
    of_objects, of_subscriptions, load = np.zeros(parts), np.zeros(parts), np.zeros(parts)
    place = np.empty(len(order), np.int64)
    for node in order:
        best, least, idlest = 0, np.inf, 0
        for part in range(parts):
            cross = pair * (of_objects[part] * subscriptions[node] + of_subscriptions[part] * objects[node])
            if cross < least or (cross == least and load[part] < load[best]):
                best, least = part, cross
            if load[part] < load[idlest]:
                idlest = part
        growth = _load(objects[node], subscriptions[node], rates) + least
        if best != idlest and _raises(load, best, growth):
            best = idlest
        of_objects[best] += objects[node]
        of_subscriptions[best] += subscriptions[node]
        load[best] = _load(of_objects[best], of_subscriptions[best], rates)
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
    rates: tuple[float, float, float],
    parts: int,
    most: int,
) -> None:
    """Move a node out of the most loaded partition, or exchange one, while that lowers the greater load of the two.

    place  int64[nodes]   the partition of each node, changed in place
    most   steps at most
    The other arguments as in `merge_nodes`. Each step takes the move or exchange that lowers it most.
    """
    held_objects, held_subscriptions, load = np.zeros(parts), np.zeros(parts), np.zeros(parts)
    for node in range(len(place)):
        held_objects[place[node]] += objects[node]
        held_subscriptions[place[node]] += subscriptions[node]
    for part in range(parts):
        load[part] = _load(held_objects[part], held_subscriptions[part], rates)
    for _ in range(most):
        top = int(np.argmax(load))
        out, into, back = _best_step(top, place, objects, subscriptions, held_objects, held_subscriptions, rates)
        if out < 0:
            break
        for node, source, target in ((out, top, into), (back, into, top)):
            if node >= 0:
                place[node] = target
                held_objects[source] -= objects[node]
                held_subscriptions[source] -= subscriptions[node]
                held_objects[target] += objects[node]
                held_subscriptions[target] += subscriptions[node]
        for part in (top, into):
            load[part] = _load(held_objects[part], held_subscriptions[part], rates)


@kernel
def _best_step(
    top: int,
    place: np.ndarray,
    objects: np.ndarray,
    subscriptions: np.ndarray,
    held_objects: np.ndarray,
    held_subscriptions: np.ndarray,
    rates: tuple[float, float, float],
) -> tuple[int, int, int]:
    """The node to move out of partition `top`, where to, and the node to take back for it (-1: none)."""
    best, out, into, back = _load(held_objects[top], held_subscriptions[top], rates) * LOWER, -1, -1, -1
    for node in range(len(place)):
        if place[node] != top:
            continue
        o, s = objects[node], subscriptions[node]
        rest = _load(held_objects[top] - o, held_subscriptions[top] - s, rates)
        for part in range(len(held_objects)):
            worse = max(rest, _load(held_objects[part] + o, held_subscriptions[part] + s, rates))
            if part != top and worse < best:
                best, out, into, back = worse, node, part, -1
        for other in range(len(place)):
            part = place[other]
            if part == top:
                continue
            more_o, more_s = o - objects[other], s - subscriptions[other]
            worse = max(
                _load(held_objects[top] - more_o, held_subscriptions[top] - more_s, rates),
                _load(held_objects[part] + more_o, held_subscriptions[part] + more_s, rates),
            )
            if worse < best:
                best, out, into, back = worse, node, part, other
    return out, into, back


@kernel
def _load(objects: float, subscriptions: float, rates: tuple[float, float, float]) -> float:
    return rates[0] * objects * subscriptions + rates[1] * objects + rates[2] * subscriptions
