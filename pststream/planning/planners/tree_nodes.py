"""Steps of the hybrid planner: cut leaf nodes by space or text, assign them to workers, build the partition plan."""

from dataclasses import dataclass

import numpy as np

from pststream.kernels.planning.assign_nodes import assign_nodes, choose_partition_counts, level_workers
from pststream.planning.live_terms import SortedSample
from pststream.planning.load_model import LoadRates
from pststream.planning.planners.contract import number_cells
from pststream.planning.planners.grow_tree import RegionTerms, TermGroup, grow_best_tree
from pststream.planning.planners.rectangle_cuts import SAME, Rectangle, estimate_load
from pststream.planning.region_counts import RegionCounts
from pststream.plans.plan import DispatchGrid, PartitionPlan

LEVEL_STEPS = 20_000
"""Maximum product of levelling steps and nodes: a step visits all nodes, so with many nodes there are fewer steps."""


@dataclass(frozen=True)
class Workload:
    """The region counts, the sorted rows and the load rates of one sample, by which nodes are cut.

    least_sum  whether a node is cut so that the sum of the loads is least, not the greatest load
    """

    counts: RegionCounts
    sample: SortedSample
    rates: LoadRates
    least_sum: bool = False


@dataclass(frozen=True)
class LeafNode:
    """A leaf node of the tree.

    by_text        whether it is one of N_t, to be partitioned by text only
    terms          int32[n], the terms of its rectangle that it serves (numbers of `SortedSample.term_ids`); None: all
    objects, subscriptions, reads, load   as in TermGroup
    """

    rectangle: Rectangle
    by_text: bool
    terms: np.ndarray | None
    objects: int
    subscriptions: int
    reads: int
    load: float


def make_whole_node(rectangle: Rectangle, by_text: bool, workload: Workload) -> LeafNode:
    """Return the node of a rectangle with all of its terms."""
    counts = workload.counts
    objects, subscriptions = int(counts.objects(*rectangle)), int(counts.subscriptions(*rectangle))
    reads, load = int(counts.reads(*rectangle)), float(counts.load(workload.rates, *rectangle))
    return LeafNode(rectangle, by_text, None, objects, subscriptions, reads, load)


def partition_node(node: LeafNode, partitions: int, workload: Workload) -> list[LeafNode]:
    """Cut a node into at most `partitions` nodes: in N_t by text, in N_s by text or space, whichever loads them less.

    Source: PS2Stream section IV-B, PartitionNode. Departures: in N_s the choice is repeated on each side of each cut,
    so one side may be partitioned by text and the other by space. The smaller greatest load is chosen, not the smaller
    sum: by the sum alone, partitions could be chosen that no assignment can balance. A node partitioned by text is cut
    by text only. With `least_sum` the node is cut as a whole, by text or by space, whichever has the smaller sum, as in
    the paper; by space if both sums are equal, which the paper leaves open.
    """
    if partitions == 1:
        return [node]
    # A node of N_t, or a part of one, is cut by text only.
    if node.by_text or node.terms is not None:
        groups = RegionTerms(node.rectangle, workload.sample, node.terms).cut(partitions, workload.rates)
        return _text_nodes(node.rectangle, groups) if len(groups) > 1 else [node]

    def by_text(rectangle: Rectangle, workers: int, bound: float) -> list[TermGroup]:
        """Partition a rectangle by text if it has enough rows."""
        region = RegionTerms(rectangle, workload.sample)
        return region.cut(workers, workload.rates, bound) if region.enough else []

    if workload.least_sum:
        tree = grow_best_tree(node.rectangle, partitions, workload.counts, workload.rates)
        groups = by_text(node.rectangle, partitions, np.inf)
        if len(groups) > 1 and sum(group.load for group in groups) * SAME < tree.loads.sum():
            return _text_nodes(node.rectangle, groups)
    else:
        # Any other node is cut by a tree whose leaves may be partitioned by text.
        tree = grow_best_tree(node.rectangle, partitions, workload.counts, workload.rates, by_text)
    leaves: list[LeafNode] = []
    for leaf in tree.leaves():
        if len(leaf.by_text) > 1:
            leaves += _text_nodes(leaf.rectangle, leaf.by_text)
        else:
            leaves.append(make_whole_node(leaf.rectangle, False, workload))
    return leaves


def _text_nodes(rectangle: Rectangle, groups: list[TermGroup] | tuple[TermGroup, ...]) -> list[LeafNode]:
    return [LeafNode(rectangle, True, g.terms, g.objects, g.subscriptions, g.reads, g.load) for g in groups]


def choose_partitions_of_nodes(nodes: list[LeafNode], workers: int, workload: Workload) -> list[int]:
    """Choose the number of partitions of each node, at most `workers` in all, so that the sum of loads is least.

    Source: PS2Stream section IV-B, ComputeNumberPartitions. Departures: there are fewer partitions than workers where
    more would only add to the sum, as subscriptions that span several partitions then cost more than the division
    saves; such nodes are cut later by balancing, the most loaded first. C[i, k] is estimated: by space with
    `rectangle_cuts.estimate_load`, by text by interpolation between cuts into 2, 4, 8 ... partitions. A node
    gets at most four times its share, in proportion to the square root of its load; these shares make the sum of loads
    least if loads are products. Both departures keep the table small for thousands of workers.
    """
    spare = workers - len(nodes)
    roots = np.sqrt([node.load for node in nodes])
    shares = roots / roots.sum() if roots.sum() > 0.0 else np.full(len(nodes), 1.0 / len(nodes))
    max_partitions = np.minimum(np.ceil(4.0 * shares * workers).astype(np.int64) + 1, spare + 1)
    loads = [_estimate_loads(node, int(k), workload) for node, k in zip(nodes, max_partitions)]
    start = np.concatenate([[0], np.cumsum(max_partitions)])
    return np.asarray(choose_partition_counts(start, np.concatenate(loads), workers)).tolist()


def _estimate_loads(node: LeafNode, max_partitions: int, workload: Workload) -> np.ndarray:
    """Estimate the sum of the loads of 1 to `max_partitions` partitions: float64[max_partitions], seconds."""
    partitions = np.arange(1, max_partitions + 1)
    if not node.by_text:
        each = [float(estimate_load(workload.counts, workload.rates, int(k), *node.rectangle)) for k in partitions]
        return np.array(each) * partitions
    region = RegionTerms(node.rectangle, workload.sample)
    powers = 2 ** np.arange(int(max_partitions).bit_length() + 1)
    sums = [sum(group.load for group in region.cut(int(k), workload.rates)) for k in powers]
    return np.interp(np.log2(partitions), np.log2(powers), sums)


def assign_to_workers(nodes: list[LeafNode], workers: int, rates: LoadRates) -> tuple[np.ndarray, np.ndarray]:
    """Return the worker of each node (int64[nodes]) and the load of each worker (float64, seconds).

    If there are no more nodes than workers, each node has a worker of its own.

    Source: PS2Stream section IV-B, MergeNodesIntoPartitions. Departures: the loads are then levelled by moving and
    exchanging nodes, as the greedy pass does not move large nodes again. An object or subscription of two nodes counts
    twice here, so a load is never too small.
    """
    loads = np.array([node.load for node in nodes])
    if len(nodes) <= workers:
        return np.arange(len(nodes)), np.concatenate([loads, np.zeros(workers - len(nodes))])
    objects = np.array([node.objects for node in nodes], dtype=np.float64)
    subscriptions = np.array([node.subscriptions for node in nodes], dtype=np.float64)
    order = np.argsort(-loads, kind="stable")
    reads = np.array([node.reads for node in nodes], dtype=np.float64)
    figures = (objects, subscriptions, rates.read * reads, rates.row_rates, workers)
    node_worker = assign_nodes(order, *figures)[0]
    level_workers(node_worker, *figures, max(LEVEL_STEPS // len(nodes), 1))
    sums = (np.bincount(node_worker, figure, minlength=workers) for figure in (objects, subscriptions, reads))
    return node_worker, rates.load(*sums)


def build_plan(
    nodes: list[LeafNode],
    node_worker: np.ndarray,
    grid: DispatchGrid,
    term_ids: np.ndarray,
    workers: int,
    options: dict[str, object],
) -> PartitionPlan:
    """Build the plan in which node i is unit i; the nodes of one rectangle share a leaf.

    Terms that no node of a leaf has, as the sample does not contain them, are spread by their id over all its nodes.
    """
    leaf_of = {rectangle: leaf for leaf, rectangle in enumerate(dict.fromkeys(node.rectangle for node in nodes))}
    # A node with all terms is the unit of its whole leaf.
    leaf = np.array([leaf_of[node.rectangle] for node in nodes])
    whole = np.array([node.terms is None for node in nodes])
    leaf_unit = np.full(len(leaf_of), -1, dtype=np.int32)
    leaf_unit[leaf[whole]] = np.flatnonzero(whole)
    # List the terms of the other nodes by leaf and term id.
    terms = [np.empty(0, dtype=np.int32) if node.terms is None else node.terms for node in nodes]
    unit = np.repeat(np.arange(len(nodes)), [len(some) for some in terms])
    term = term_ids[np.concatenate(terms)]
    order = np.lexsort((term, leaf[unit]))
    # The nodes of a leaf by text share its other terms.
    spread = np.flatnonzero(~whole)
    spread = spread[np.argsort(leaf[spread], kind="stable")]
    ends = np.arange(len(leaf_of) + 1)
    return PartitionPlan(
        planner="hybrid",
        workers=workers,
        grid=grid,
        cell_leaf=number_cells(grid, leaf_of),
        leaf_unit=leaf_unit,
        term_offsets=np.searchsorted(leaf[unit][order], ends),
        terms=term[order],
        term_unit=unit[order].astype(np.int32),
        spread_offsets=np.searchsorted(leaf[spread], ends),
        spread_unit=spread.astype(np.int32),
        unit_worker=np.asarray(node_worker).astype(np.int32),
        options=options,
    )
