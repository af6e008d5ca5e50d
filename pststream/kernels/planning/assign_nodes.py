"""Assign tree nodes and other parts to workers greedily, level the loads, and choose how nodes are partitioned."""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel

LOWER = 1.0 - 1e-9
"""Factor below which a load must fall to count as an improvement."""


class Rates(NamedTuple):
    """Seconds of load for each pair of an object and a subscription, each object, and each subscription of a worker."""

    pair: float
    object: float
    subscription: float


@kernel
def load_of(objects: float, subscriptions: float, read_seconds: float, rates: Rates) -> float:
    """Return the load of a worker by Definition 1 of PS2Stream, in seconds; `read_seconds`: to read postings."""
    pair, each_object, each_subscription = rates
    return pair * objects * subscriptions + each_object * objects + each_subscription * subscriptions + read_seconds


@kernel
def assign_nodes(
    order: np.ndarray,
    objects: np.ndarray,
    subscriptions: np.ndarray,
    read_seconds: np.ndarray,
    rates: Rates,
    workers: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the worker of each node (int64[nodes]) and the load of each worker (float64[workers], seconds).

    order          int64[nodes]     the nodes, the most loaded first
    objects        float64[nodes]   objects of each node
    subscriptions  float64[nodes]   subscriptions of each node
    read_seconds   float64[nodes]   seconds to read the postings that its objects read

    A node goes to the worker whose load grows least; among equals, to the least loaded. If that raises the ratio of the
    greatest load to the least, the node goes to the least loaded worker instead. An object or subscription of two nodes
    counts twice.

    Source: PS2Stream section IV-B, MergeNodesIntoPartitions.
    """
    pair = rates.pair
    worker_objects, worker_subscriptions = np.zeros(workers), np.zeros(workers)
    worker_reads, load = np.zeros(workers), np.zeros(workers)
    node_worker = np.empty(len(order), np.int64)
    for node in order:
        # Find the worker with the least growth. Only the pairs of old and new rows differ between workers.
        best, least, idlest = 0, np.inf, 0
        for worker in range(workers):
            cross = pair * (worker_objects[worker] * subscriptions[node] + worker_subscriptions[worker] * objects[node])
            if cross < least or (cross == least and load[worker] < load[best]):
                best, least = worker, cross
            if load[worker] < load[idlest]:
                idlest = worker
        # Prefer the least loaded worker if the best one would make the loads less even.
        growth = load_of(objects[node], subscriptions[node], read_seconds[node], rates) + least
        if best != idlest and _raises_imbalance(load, best, growth):
            best = idlest
        # Add the node to its worker.
        worker_objects[best] += objects[node]
        worker_subscriptions[best] += subscriptions[node]
        worker_reads[best] += read_seconds[node]
        load[best] = load_of(worker_objects[best], worker_subscriptions[best], worker_reads[best], rates)
        node_worker[node] = best
    return node_worker, load


@kernel
def _raises_imbalance(load: np.ndarray, grown: int, growth: float) -> bool:
    """Return whether the growth of one worker raises the ratio of the greatest load to the least.

    Without load at some worker the ratio is infinite already, so nothing raises it.
    """
    greatest, least, greatest_after, least_after = 0.0, np.inf, 0.0, np.inf
    for worker in range(len(load)):
        after = load[worker] + growth if worker == grown else load[worker]
        greatest, least = max(greatest, load[worker]), min(least, load[worker])
        greatest_after, least_after = max(greatest_after, after), min(least_after, after)
    return least > 0.0 and greatest_after * least > greatest * least_after


@kernel
def level_workers(
    node_worker: np.ndarray,
    objects: np.ndarray,
    subscriptions: np.ndarray,
    read_seconds: np.ndarray,
    rates: Rates,
    workers: int,
    max_steps: int,
) -> None:
    """Move or exchange nodes of the most loaded worker while that lowers the greater load of the two workers concerned.

    node_worker  int64[nodes]   the worker of each node, changed in place
    max_steps    steps at most
    The other arguments are those of `assign_nodes`. Each step makes the move or exchange that lowers the load most.
    """
    # Sum the figures of the nodes by worker.
    node_figures = np.column_stack((objects, subscriptions, read_seconds))
    worker_figures, load = np.zeros((workers, 3)), np.zeros(workers)
    for node in range(len(node_worker)):
        worker_figures[node_worker[node]] += node_figures[node]
    for worker in range(workers):
        load[worker] = load_of(worker_figures[worker, 0], worker_figures[worker, 1], worker_figures[worker, 2], rates)
    for _ in range(max_steps):
        # Find the best step of the most loaded worker.
        top = int(np.argmax(load))
        out, target, back = _best_step(top, node_worker, node_figures, worker_figures, rates)
        if out < 0:
            break
        # Carry it out, and compute the two loads again.
        for node, source, destination in ((out, top, target), (back, target, top)):
            if node >= 0:
                node_worker[node] = destination
                worker_figures[source] -= node_figures[node]
                worker_figures[destination] += node_figures[node]
        for worker in (top, target):
            load[worker] = load_of(
                worker_figures[worker, 0], worker_figures[worker, 1], worker_figures[worker, 2], rates
            )


@kernel
def _best_step(
    top: int, node_worker: np.ndarray, nodes: np.ndarray, workers: np.ndarray, rates: Rates
) -> tuple[int, int, int]:
    """Return the node to move out of worker `top`, its new worker, and the node to exchange it for (-1: none).

    nodes, workers  float64[nodes, 3], float64[workers, 3]  objects, subscriptions, seconds of reading
    """
    best, out, target, back = load_of(workers[top, 0], workers[top, 1], workers[top, 2], rates) * LOWER, -1, -1, -1
    for node in range(len(node_worker)):
        # Skip nodes of other workers, and nodes whose removal leaves `top` too loaded.
        if node_worker[node] != top:
            continue
        o, s, r = nodes[node]
        rest = load_of(workers[top, 0] - o, workers[top, 1] - s, workers[top, 2] - r, rates)
        if rest >= best:
            continue
        # Try to move the node to each other worker.
        for worker in range(len(workers)):
            worse = max(rest, load_of(workers[worker, 0] + o, workers[worker, 1] + s, workers[worker, 2] + r, rates))
            if worker != top and worse < best:
                best, out, target, back = worse, node, worker, -1
        # Try to exchange it for each node of another worker.
        for other in range(len(node_worker)):
            worker = node_worker[other]
            if worker == top:
                continue
            more_o, more_s, more_r = o - nodes[other, 0], s - nodes[other, 1], r - nodes[other, 2]
            worse = max(
                load_of(workers[top, 0] - more_o, workers[top, 1] - more_s, workers[top, 2] - more_r, rates),
                load_of(workers[worker, 0] + more_o, workers[worker, 1] + more_s, workers[worker, 2] + more_r, rates),
            )
            if worse < best:
                best, out, target, back = worse, node, worker, other
    return out, target, back


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


@kernel
def choose_partition_counts(start: np.ndarray, loads: np.ndarray, partitions: int) -> np.ndarray:
    """Return the numbers of partitions of tree nodes for which the sum of all loads is least: int64[nodes], at least 1.

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
