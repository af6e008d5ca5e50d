"""Hybrid planner: partition each region by space or by text, whichever loads its workers less (kd-text tree)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pststream.kernels.planning.assign_nodes import assign_nodes, choose_partition_counts, level_workers
from pststream.kernels.planning.term_runs import SIDES, compute_side_similarities, find_nodes_of_pieces
from pststream.kernels.routing.pyramid import build_pyramid
from pststream.planning.live_terms import SortedSample, sort_sample
from pststream.planning.load_model import CostModel, LoadRates
from pststream.planning.planners.contract import (
    RASTER_OPTIONS,
    Options,
    make_raster,
    number_cells,
    read_choice,
    read_integer_options,
    read_real_options,
)
from pststream.planning.planners.grow_tree import RegionTerms, TermGroup, grow_best_tree
from pststream.planning.planners.rectangle_cuts import (
    COLUMNS_APART,
    ROWS_APART,
    SAME,
    Rectangle,
    can_cut,
    estimate_load,
)
from pststream.planning.region_counts import RegionCounts, build_region_counts
from pststream.plans.imbalance import imbalance_of
from pststream.plans.plan import DispatchGrid, PartitionPlan
from pststream.plans.planner_sample import WorkloadSample

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


CONSISTENT = 0.02
"""Difference below which two similarities are taken as equal (the paper's `is about 0`)."""

MIN_ROWS = 1000
"""Minimum number of objects and of boxes on each side of a split: in smaller samples similarity falls by chance."""


@dataclass(frozen=True)
class PlanningRegion:
    """A region of the result; `by_text`: it belongs to N_t, to be partitioned by text; otherwise to N_s."""

    rectangle: Rectangle
    by_text: bool


def split_by_similarity(
    sample: SortedSample, counts: RegionCounts, delta: float, max_regions: int
) -> list[PlanningRegion]:
    """Split the whole raster into the nodes N_s and N_t, low sides first.

    A node whose similarity is `delta` or more belongs to N_s. For any other node, alpha of a direction is the smaller
    similarity of the two sides of a cut at the median of its objects. The node is split in the direction of the smaller
    alpha; if this alpha is about the similarity of the node, the node belongs to N_t instead. Nodes are split level by
    level, so that a level costs one pass over the sample. Once there are `max_regions` nodes, the remaining ones go to
    N_t.

    Source: PS2Stream section IV-B, Algorithm 1, lines 1-12. Departures: similarity counts the terms that subscriptions
    are posted under, and the live terms of objects, as no others bring load; a node with a side that is too small
    (`MIN_ROWS`) is not split; the number of nodes is bounded.
    """
    whole = Rectangle(0, 0, counts.columns - 1, counts.rows - 1)
    by_term = sample.by_term()
    open_nodes = [whole]
    similarity = _similarities(open_nodes, np.array([[whole.x1, whole.y1]]), sample, by_term)[:, 0]
    decided: list[PlanningRegion] = []
    while open_nodes:
        # Similar nodes are finished.
        decided += [PlanningRegion(node, False) for node, alike in zip(open_nodes, similarity) if alike >= delta]
        unlike = [(node, alike) for node, alike in zip(open_nodes, similarity) if alike < delta]
        if not unlike:
            break
        nodes = [node for node, _ in unlike]
        # Compute the similarities on both sides of the median cuts of the others.
        cuts = np.array([[_median(node, axis, counts) for axis in (COLUMNS_APART, ROWS_APART)] for node in nodes])
        sides = _similarities(nodes, cuts, sample, by_term)
        # Split each of them, or finish it if no split helps.
        open_nodes, similarity = [], np.empty(0)
        for done, ((node, alike), cut, side) in enumerate(zip(unlike, cuts, sides)):
            halves, alphas = _split(node, cut, side, counts)
            has_room = len(decided) + len(open_nodes) + len(unlike) - done < max_regions
            if halves and has_room and abs(alphas.min() - alike) > CONSISTENT:
                open_nodes += halves
                similarity = np.append(similarity, alphas)
            else:
                decided.append(PlanningRegion(node, True))
    return sorted(decided, key=lambda region: (region.rectangle.y0, region.rectangle.x0))


def _median(node: Rectangle, axis: int, counts: RegionCounts) -> int:
    """Return the first column (or row) up to which at least half of the objects lie, but never the last of several."""
    lines = node.lines(axis)
    sums = counts.objects(*node.cut(axis, lines)[0])
    return int(lines[min(np.searchsorted(2 * sums, sums[-1]), max(len(sums) - 2, 0))])


def _similarities(
    nodes: list[Rectangle], cuts: np.ndarray, sample: SortedSample, by_term: tuple[tuple, tuple]
) -> np.ndarray:
    """Compute the similarity on the west, east, south and north sides of the cuts: float64[nodes, SIDES]."""
    grid = sample.grid
    raster = np.full((grid.rows, grid.columns), len(nodes), dtype=np.int32)
    for i, (x0, y0, x1, y1) in enumerate(nodes):
        raster[y0 : y1 + 1, x0 : x1 + 1] = i
    pyramid = build_pyramid(raster.ravel(), grid.columns, grid.rows, len(nodes) + 1)
    touched = find_nodes_of_pieces(sample.ranges, pyramid, len(nodes))
    cells = (sample.column, sample.row, raster[sample.row, sample.column])
    similarity = compute_side_similarities(*by_term, cells, sample.ranges, touched, cuts.astype(np.int64))
    return np.asarray(similarity).reshape(len(nodes), SIDES)


def _split(
    node: Rectangle, cut: np.ndarray, side: np.ndarray, counts: RegionCounts
) -> tuple[list[Rectangle], np.ndarray]:
    """Return the halves in the direction of the smaller alpha, and their similarities; none if all are too small."""
    ways = []
    for axis in (COLUMNS_APART, ROWS_APART):
        halves = node.cut(axis, int(cut[axis])) if can_cut(axis, node) else ()
        rows = [int(count(*half)) for half in halves for count in (counts.objects, counts.subscriptions)]
        if min(rows, default=0) >= MIN_ROWS:
            ways.append((list(halves), side[2 * axis : 2 * axis + 2]))
    return min(ways, key=lambda way: float(way[1].min())) if ways else ([], np.empty(0))


DEFAULTS = {**RASTER_OPTIONS, "theta": 128}
REAL_DEFAULTS = {"delta": (0.15, 0.0), "sigma": (1.1, 1.0)}
"""Default and least value of each."""

OBJECTIVES = ("max", "sum")

BALANCE_PRICE = 1.02
"""A balanced plan is chosen if its greatest load is at most this factor times the least greatest load of all plans."""


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Return a plan of rectangles, each served whole or partitioned by text; node i of the kd-text tree is unit i.

    options  columns, rows: of the raster
             delta: similarity of objects and subscriptions from which a region is not reserved for text
             sigma: greatest load over least up to which loads are balanced, at least 1
             theta: number of leaf nodes at which balancing ends; more workers than that have a node each
             objective: `max`, the least greatest load; `sum`, the least sum of loads with sigma as a constraint

    Source: PS2Stream section IV-B, Algorithm 1. Departures, besides those that the functions below name: balancing
    keeps the nodes whose most loaded worker is least loaded, not the last nodes. If the node with the largest load
    cannot be cut, the most loaded node that can be cut is cut. Lines 13-27 are run not only from the nodes of phase
    one, but also with the whole space in N_s, for as many nodes as workers and for twice as many: medians and whole
    numbers of partitions can leave the regions of phase one worse balanced than a tree that is cut by load from the
    root, and with two nodes for each worker, many rare terms can be merged with few frequent ones. The default of sigma
    is stricter than the default of the setting `sigma`, above which the plan in force is adjusted. The plan whose most
    loaded worker is least loaded is chosen. If it violates sigma, another plan that does not is chosen instead, if its
    greatest load is at most BALANCE_PRICE times the least.

    The objective `sum` is Algorithm 1 as written: only the nodes of phase one are balanced, a node is cut by text or by
    space as a whole, whichever has the smaller sum, and balancing ends with the first plan within sigma. One departure
    remains: if theta ends it, the plan with the least imbalance is chosen, not the last one.
    """
    objective = read_choice("hybrid", options, "objective", OBJECTIVES)
    real = read_real_options("hybrid", options, REAL_DEFAULTS)
    chosen = read_integer_options("hybrid", options, DEFAULTS, (*REAL_DEFAULTS, "objective"))
    all_options: dict[str, object] = {**chosen, **real, "objective": objective}
    grid = make_raster(sample, chosen)
    counts, least_sum = build_region_counts(sample, grid), objective == "sum"
    workload = Workload(counts, sort_sample(sample, grid), cost.rates(sample), least_sum)
    max_nodes = max(chosen["theta"], workers)
    starts = _start_nodes(workers, workload, real["delta"], max_nodes)
    candidates = (
        candidate for nodes in starts for candidate in _balance(nodes, workers, workload, real["sigma"], max_nodes)
    )
    best = min(candidates, key=lambda candidate: candidate.imbalance) if least_sum else _choose(candidates)
    return build_plan(best.nodes, best.node_worker, grid, workload.sample.term_ids, workers, all_options)


def _choose(candidates: Iterable["_Candidate"]) -> "_Candidate":
    """Return the first candidate whose most loaded worker is least loaded.

    If it violates sigma, return the least loaded candidate within sigma, if its load is within BALANCE_PRICE. Only two
    candidates are kept in memory: with many workers there are as many candidates, each with as many nodes.
    """
    least: _Candidate | None = None
    balanced: _Candidate | None = None
    for candidate in candidates:
        if least is None or candidate.load < least.load:
            least = candidate
        if candidate.balanced and (balanced is None or candidate.load < balanced.load):
            balanced = candidate
    assert least is not None  # each start has at least one candidate
    return balanced if balanced is not None and balanced.load <= BALANCE_PRICE * least.load else least


def _start_nodes(workers: int, workload: Workload, delta: float, max_nodes: int) -> Iterator[list[LeafNode]]:
    """Yield lists of nodes to balance.

    The whole space is cut for as many nodes as workers and for twice as many; then come the nodes of phase one. For the
    least sum there are only these.
    """
    regions = split_by_similarity(workload.sample, workload.counts, delta, max_nodes)
    from_phase_one = [make_whole_node(region.rectangle, region.by_text, workload) for region in regions]
    if workload.least_sum:
        yield _cut_to_workers(from_phase_one, workers, workload)
        return
    root = make_whole_node(Rectangle(0, 0, workload.counts.columns - 1, workload.counts.rows - 1), False, workload)
    yield partition_node(root, workers, workload)
    if 1 < workers <= max_nodes // 2 and root.load > 0.0:
        yield partition_node(root, 2 * workers, workload)
    if len(regions) > 1 or regions[0].by_text:
        yield _cut_to_workers(from_phase_one, workers, workload)


def _cut_to_workers(nodes: list[LeafNode], workers: int, workload: Workload) -> list[LeafNode]:
    """Cut nodes further, up to one for each worker (Algorithm 1, lines 13-16; `choose_partitions_of_nodes`)."""
    if len(nodes) >= workers:
        return nodes
    counts = choose_partitions_of_nodes(nodes, workers, workload)
    return [part for node, count in zip(nodes, counts) for part in partition_node(node, count, workload)]


@dataclass(frozen=True)
class _Candidate:
    """Nodes, the worker of each, the greatest load of a worker, the imbalance, and whether it is within sigma."""

    nodes: list[LeafNode]
    node_worker: np.ndarray
    load: float
    imbalance: float
    balanced: bool


def _balance(
    nodes: list[LeafNode], workers: int, workload: Workload, sigma: float, max_nodes: int
) -> Iterator[_Candidate]:
    """Assign the nodes to workers, then cut the most loaded node and assign again; yield each result.

    This ends when the loads are balanced, no node can be cut or there are `max_nodes` (lines 17-27).
    """
    uncut: set[int] = set()
    while True:
        node_worker, loads = assign_to_workers(nodes, workers, workload.rates)
        balanced = bool(loads.max() <= sigma * loads.min())
        yield _Candidate(nodes, node_worker, float(loads.max()), imbalance_of(loads), balanced)
        parts: list[LeafNode] = []
        while len(parts) < 2:
            able = [i for i, node in enumerate(nodes) if id(node) not in uncut and node.load > 0.0]
            if balanced or len(nodes) >= max_nodes or not able:
                return
            at = max(able, key=lambda i: nodes[i].load)
            parts = partition_node(nodes[at], 2, workload)
            if len(parts) == 1:
                uncut.add(id(nodes[at]))
        nodes = nodes[:at] + parts + nodes[at + 1 :]
