"""The leaf nodes of a kd-text tree: partitioning one, sharing parts out, merging them, and the plan they make."""

from dataclasses import dataclass

import numpy as np

from pststream.cost.load_model import LoadRates
from pststream.cost.region_counts import RegionCounts
from pststream.domain.plan import DispatchGrid, PartitionPlan
from pststream.kernels.planning.assign_nodes import level_parts, merge_nodes
from pststream.kernels.planning.shares import share_parts
from pststream.partitioning.grow_tree import best_tree
from pststream.partitioning.rectangle_cuts import Rectangle, expected_load
from pststream.partitioning.text_split import TextNode, TextPart
from pststream.samples.sorted_sample import Postings

LEVEL_STEPS = 20_000
"""Steps of levelling times nodes: a step looks at all nodes, so with many of them it ends early."""


@dataclass(frozen=True)
class Workload:
    """What nodes are cut by: the tables and the postings of one sample, and the rates of its loads."""

    counts: RegionCounts
    postings: Postings
    rates: LoadRates


@dataclass(frozen=True)
class LeafNode:
    """A leaf node of the tree.

    by_text        whether it is one of N_t, to be partitioned by text only
    terms          int32[n], what it serves of its rectangle (numbers of `Postings.term_ids`); None: everything
    objects, subscriptions, reads, load   as TextPart has them
    """

    rectangle: Rectangle
    by_text: bool
    terms: np.ndarray | None
    objects: int
    subscriptions: int
    reads: int
    load: float


def whole_node(rectangle: Rectangle, by_text: bool, workload: Workload) -> LeafNode:
    """The node of a rectangle with all of its terms."""
    counts = workload.counts
    objects, subscriptions = int(counts.objects(*rectangle)), int(counts.subscriptions(*rectangle))
    reads, load = int(counts.reads(*rectangle)), float(counts.load(workload.rates, *rectangle))
    return LeafNode(rectangle, by_text, None, objects, subscriptions, reads, load)


def partition_node(node: LeafNode, parts: int, workload: Workload) -> list[LeafNode]:
    """At most `parts` nodes in place of one: by text in N_t, by text or by space in N_s, whichever loads them least.

    Source: PS2Stream section IV-B, PartitionNode. Departures: in N_s the choice is made anew on each side of each cut,
    so that a side may be partitioned by text and the other by space; and it is for the smaller greatest load, not the
    smaller sum: the sum alone would take parts that no merge can balance. What is partitioned by text stays so.
    """
    if parts == 1:
        return [node]
    if node.by_text or node.terms is not None:
        found = TextNode(node.rectangle, workload.postings, node.terms).cut(parts, workload.rates)
        return _text_nodes(node.rectangle, found) if len(found) > 1 else [node]

    def by_text(rectangle: Rectangle, workers: int, bound: float) -> list[TextPart]:
        region = TextNode(rectangle, workload.postings)
        return region.cut(workers, workload.rates, bound) if region.enough else []

    tree = best_tree(node.rectangle, parts, workload.counts, workload.rates, by_text)
    leaves: list[LeafNode] = []
    for leaf in tree.leaves():
        if len(leaf.by_text) > 1:
            leaves += _text_nodes(leaf.rectangle, leaf.by_text)
        else:
            leaves.append(whole_node(leaf.rectangle, False, workload))
    return leaves


def _text_nodes(rectangle: Rectangle, parts: list[TextPart] | tuple[TextPart, ...]) -> list[LeafNode]:
    return [LeafNode(rectangle, True, p.terms, p.objects, p.subscriptions, p.reads, p.load) for p in parts]


def numbers_of_parts(nodes: list[LeafNode], workers: int, workload: Workload) -> list[int]:
    """Into how many parts each node is cut so that the sum of loads is least: `workers` in all at most.

    Source: PS2Stream section IV-B, ComputeNumberPartitions. Departures: fewer parts than workers are given where more
    would only add to the sum, as they do once subscriptions that span the parts cost more than what is shared: nodes
    are then cut by balancing, the most loaded first, which is what they are cut for; C[i, k] is expected, not tried: by
    space as `cuts.expected_load` says, by text from cuts into 2, 4, 8 ... parts and the powers between them; and a node
    is not offered more than four times its share by the square root of its load, which is where the sums of k parts are
    least if loads are products. Both keep the table small for thousands of workers.
    """
    spare = workers - len(nodes)
    roots = np.sqrt([node.load for node in nodes])
    shares = roots / roots.sum() if roots.sum() > 0.0 else np.full(len(nodes), 1.0 / len(nodes))
    most = np.minimum(np.ceil(4.0 * shares * workers).astype(np.int64) + 1, spare + 1)
    loads = [_loads_of_parts(node, int(k), workload) for node, k in zip(nodes, most)]
    start = np.concatenate([[0], np.cumsum(most)])
    return np.asarray(share_parts(start, np.concatenate(loads), workers)).tolist()


def _loads_of_parts(node: LeafNode, most: int, workload: Workload) -> np.ndarray:
    """Sum of the loads of 1 to `most` parts: float64[most], seconds."""
    parts = np.arange(1, most + 1)
    if not node.by_text:
        each = [float(expected_load(workload.counts, workload.rates, int(k), *node.rectangle)) for k in parts]
        return np.array(each) * parts
    region = TextNode(node.rectangle, workload.postings)
    powers = 2 ** np.arange(int(most).bit_length() + 1)
    sums = [sum(part.load for part in region.cut(int(k), workload.rates)) for k in powers]
    return np.interp(np.log2(parts), np.log2(powers), sums)


def merge(nodes: list[LeafNode], workers: int, rates: LoadRates) -> tuple[np.ndarray, np.ndarray]:
    """The worker of each node (int64[nodes]) and the load of each worker (float64, seconds).

    As many nodes as workers or fewer have a worker each.

    Source: PS2Stream section IV-B, MergeNodesIntoPartitions. Departures: the merged partitions are then levelled by
    moving and exchanging nodes, as the greedy pass leaves the large ones where they fell; and a load here counts twice
    what two nodes share, so it is never too small.
    """
    loads = np.array([node.load for node in nodes])
    if len(nodes) <= workers:
        return np.arange(len(nodes)), np.concatenate([loads, np.zeros(workers - len(nodes))])
    objects = np.array([node.objects for node in nodes], dtype=np.float64)
    subscriptions = np.array([node.subscriptions for node in nodes], dtype=np.float64)
    order = np.argsort(-loads, kind="stable")
    reads = np.array([node.reads for node in nodes], dtype=np.float64)
    figures = (objects, subscriptions, rates.posting * reads, (rates.pair, rates.object, rates.subscription), workers)
    place = merge_nodes(order, *figures)[0]
    level_parts(place, *figures, max(LEVEL_STEPS // len(nodes), 1))
    held = (np.bincount(place, figure, minlength=workers) for figure in (objects, subscriptions, reads))
    return place, rates.load(*held)


def plan_of_nodes(
    nodes: list[LeafNode],
    node_worker: np.ndarray,
    grid: DispatchGrid,
    term_ids: np.ndarray,
    workers: int,
    options: dict[str, object],
) -> PartitionPlan:
    """The plan in which node i is unit i; the nodes of one rectangle share a leaf.

    Terms that no node of a leaf has are shared out by number among all of them: the sample says nothing of these.
    """
    leaf_of = {rectangle: leaf for leaf, rectangle in enumerate(dict.fromkeys(node.rectangle for node in nodes))}
    cell_leaf = np.empty((grid.rows, grid.columns), dtype=np.int32)
    for (x0, y0, x1, y1), number in leaf_of.items():
        cell_leaf[y0 : y1 + 1, x0 : x1 + 1] = number
    leaf = np.array([leaf_of[node.rectangle] for node in nodes])
    whole = np.array([node.terms is None for node in nodes])
    leaf_unit = np.full(len(leaf_of), -1, dtype=np.int32)
    leaf_unit[leaf[whole]] = np.flatnonzero(whole)
    terms = [np.empty(0, dtype=np.int32) if node.terms is None else node.terms for node in nodes]
    unit = np.repeat(np.arange(len(nodes)), [len(some) for some in terms])
    term = term_ids[np.concatenate(terms)]
    order = np.lexsort((term, leaf[unit]))
    spread = np.flatnonzero(~whole)
    spread = spread[np.argsort(leaf[spread], kind="stable")]
    ends = np.arange(len(leaf_of) + 1)
    return PartitionPlan(
        planner="hybrid",
        workers=workers,
        grid=grid,
        cell_leaf=cell_leaf.ravel(),
        leaf_unit=leaf_unit,
        term_offsets=np.searchsorted(leaf[unit][order], ends),
        terms=term[order],
        term_unit=unit[order].astype(np.int32),
        spread_offsets=np.searchsorted(leaf[spread], ends),
        spread_unit=spread.astype(np.int32),
        unit_worker=np.asarray(node_worker).astype(np.int32),
        options=options,
    )
