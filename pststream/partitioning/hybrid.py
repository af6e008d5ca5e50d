"""The hybrid planner: space and text together, each where it makes the smaller load (PS2Stream's kd-text tree)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pststream.cost.load_model import CostModel
from pststream.cost.region_counts import region_counts
from pststream.domain.plan import PartitionPlan
from pststream.domain.planner_sample import WorkloadSample
from pststream.partitioning.contract import Options, real_numbers, whole_numbers
from pststream.partitioning.rectangle_cuts import Rectangle
from pststream.partitioning.similar_regions import similar_regions
from pststream.partitioning.tree_nodes import (
    LeafNode,
    Workload,
    merge,
    numbers_of_parts,
    partition_node,
    plan_of_nodes,
    whole_node,
)
from pststream.samples.sorted_sample import postings_of
from pststream.space.plan_raster import COLUMNS, ROWS, bounds_of

DEFAULTS = {"columns": COLUMNS, "rows": ROWS, "theta": 128}
REAL_DEFAULTS = {"delta": (0.15, 0.0), "sigma": (1.1, 1.0)}
"""Default and least value of each."""

PRICE = 1.02
"""Greatest load for which balance is bought, over the least there is: what is balanced may do more work in all."""


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """Rectangles, each served whole or partitioned by text; node i of the kd-text tree is unit i.

    options  columns, rows: of the raster
             delta: similarity of objects and subscriptions from which a region is not reserved for text
             sigma: greatest load over least that is balanced, at least 1
             theta: leaf nodes at which balancing ends; more workers than that have a node each

    Source: PS2Stream section IV-B, Algorithm 1. Departures, beside those that its parts name: balancing keeps the nodes
    whose most loaded worker is least loaded, not the last; if the node with the largest load cannot be cut, the next
    that can be is. And lines 13-27 are run from more than phase one's nodes: with the whole space in N_s, for as many
    nodes as workers and for twice as many. Medians and whole numbers of parts can leave phase one's regions worse
    balanced than a tree that is cut by load from the root; and with two nodes a worker, merging can put many rare terms
    with few frequent ones. The default of sigma is stricter than that of the setting `sigma`, at which a plan that is
    in force is adjusted. The plan whose most loaded worker is least loaded is taken; where that violates sigma,
    another that does not, if its greatest load is at most PRICE of the least.
    """
    real = real_numbers("hybrid", options, REAL_DEFAULTS)
    chosen = whole_numbers("hybrid", {k: v for k, v in options.items() if k not in REAL_DEFAULTS}, DEFAULTS)
    told: dict[str, object] = {**chosen, **real}
    grid = bounds_of(sample.lon, sample.lat, sample.boxes, chosen["columns"], chosen["rows"])
    workload = Workload(region_counts(sample, grid), postings_of(sample, grid), cost.rates(sample))
    most = max(chosen["theta"], workers)
    starts = _starts(workers, workload, real["delta"], most)
    taken = _least_loaded(one for nodes in starts for one in _balanced(nodes, workers, workload, real["sigma"], most))
    return plan_of_nodes(taken.nodes, taken.place, grid, workload.postings.term_ids, workers, told)


def _least_loaded(found: Iterable["_Merged"]) -> "_Merged":
    """The first whose most loaded worker is least loaded; if it violates sigma, the least loaded one that does not, at
    PRICE at most. No other is kept: with many workers there are as many candidates, each with as many nodes.
    """
    least: _Merged | None = None
    held: _Merged | None = None
    for one in found:
        if least is None or one.load < least.load:
            least = one
        if one.held and (held is None or one.load < held.load):
            held = one
    assert least is not None  # of every start there is one at least
    return held if held is not None and held.load <= PRICE * least.load else least


def _starts(workers: int, workload: Workload, delta: float, most: int) -> Iterator[list[LeafNode]]:
    """Nodes to balance: of the whole space, for as many nodes as workers and for twice as many; and of phase one."""
    root = whole_node(Rectangle(0, 0, workload.counts.columns - 1, workload.counts.rows - 1), False, workload)
    yield partition_node(root, workers, workload)
    if 1 < workers <= most // 2 and root.load > 0.0:
        yield partition_node(root, 2 * workers, workload)
    regions = similar_regions(workload.postings, workload.counts, delta, most)
    if len(regions) > 1 or regions[0].by_text:
        nodes = [whole_node(region.rectangle, region.by_text, workload) for region in regions]
        yield _enough_nodes(nodes, workers, workload)


def _enough_nodes(nodes: list[LeafNode], workers: int, workload: Workload) -> list[LeafNode]:
    """Nodes cut further, for as many as workers at most (Algorithm 1, lines 13-16; `numbers_of_parts`)."""
    if len(nodes) >= workers:
        return nodes
    parts = numbers_of_parts(nodes, workers, workload)
    return [part for node, number in zip(nodes, parts) for part in partition_node(node, number, workload)]


@dataclass(frozen=True)
class _Merged:
    """Nodes, the worker of each, the greatest load of a worker, and whether sigma holds."""

    nodes: list[LeafNode]
    place: np.ndarray
    load: float
    held: bool


def _merged(nodes: list[LeafNode], workers: int, workload: Workload, sigma: float) -> _Merged:
    place, loads = merge(nodes, workers, workload.rates)
    return _Merged(nodes, place, float(loads.max()), bool(loads.max() <= sigma * loads.min()))


def _balanced(nodes: list[LeafNode], workers: int, workload: Workload, sigma: float, most: int) -> Iterator[_Merged]:
    """The nodes, cut and merged again and again until loads are balanced, none can be cut or they are `most` (lines
    17-27).
    """
    stuck: set[int] = set()
    yield (merged := _merged(nodes, workers, workload, sigma))
    while not merged.held and len(nodes) < most:
        able = [i for i, node in enumerate(nodes) if id(node) not in stuck and node.load > 0.0]
        if not able:
            return
        at = max(able, key=lambda i: nodes[i].load)
        parts = partition_node(nodes[at], 2, workload)
        if len(parts) == 1:
            stuck.add(id(nodes[at]))
            continue
        nodes = nodes[:at] + parts + nodes[at + 1 :]
        yield (merged := _merged(nodes, workers, workload, sigma))
