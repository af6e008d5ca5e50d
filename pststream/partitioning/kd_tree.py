"""The kd-tree planner: the raster cut in two again and again until each worker has one rectangle."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pststream.domain.plan import PartitionPlan, space_plan
from pststream.domain.workload import WorkloadSample
from pststream.partitioning.contract import Options, whole_numbers
from pststream.partitioning.cuts import Rectangle, best_cut, can_cut, cut_along, expected_load
from pststream.space.bounds import COLUMNS, ROWS, bounds_of
from pststream.workload.cost import CostModel, LoadRates
from pststream.workload.counts import RegionCounts, region_counts

DEFAULTS = {"columns": COLUMNS, "rows": ROWS}

PASSES = 4
"""Trees that are grown; later ones change little."""


@dataclass(frozen=True)
class Node:
    """A node of the tree with all below it.

    axis      of its cut, None in a leaf
    loads     seconds, float64: Definition 1 of each leaf below
    expected  seconds: what a worker was expected to have before the node was cut
    """

    rectangle: Rectangle
    workers: int
    axis: int | None
    children: tuple["Node", ...]
    loads: np.ndarray
    expected: float

    @property
    def misjudged(self) -> float:
        """Load of a worker in truth for each second expected."""
        return float(self.loads.mean()) / self.expected if self.expected > 0.0 else 1.0

    def leaves(self) -> Iterator["Node"]:
        """The leaves below, low sides first."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def plan(sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
    """One leaf a worker, by recursive cuts along the cell borders of the raster.

    Each cut takes the direction and the position at which the more loaded side is the least loaded, where the load of
    a side is what one of its workers is expected to have once the side is cut further (`cuts.expected_load`). As that
    is a guess, the tree is grown again a few times with the same directions, each guess corrected by what came of it
    the time before, and the tree whose most loaded leaf is least loaded is kept. With fewer cells than workers, the
    last workers get none.

    options  columns, rows: of the raster

    Source: the kd-tree baseline of PS2Stream, section VI-B. The paper does not say how a node is cut; it names AQWA and
    Tornado for it. Departure: uneven numbers of workers, and the correction.
    """
    chosen = whole_numbers("kd_tree", options, DEFAULTS)
    grid = bounds_of(sample.lon, sample.lat, sample.boxes, chosen["columns"], chosen["rows"])
    counts = region_counts(sample, grid)
    rates = cost.rates(sample)
    whole = Rectangle(0, 0, grid.columns - 1, grid.rows - 1)
    best = tree = grow(whole, workers, counts, rates)
    for _ in range(PASSES - 1):
        tree = grow(whole, workers, counts, rates, tree)
        if tree.loads.max() < best.loads.max():
            best = tree
    cell_leaf = np.zeros((grid.rows, grid.columns), dtype=np.int32)
    for leaf, node in enumerate(best.leaves()):
        x0, y0, x1, y1 = node.rectangle
        cell_leaf[y0 : y1 + 1, x0 : x1 + 1] = leaf
    return space_plan("kd_tree", grid, cell_leaf.ravel(), np.arange(len(best.loads)), workers, dict(chosen))


def grow(
    rectangle: Rectangle, workers: int, counts: RegionCounts, rates: LoadRates, before: Node | None = None
) -> Node:
    """The tree over a rectangle; `before` is the node in its place in the tree grown last."""
    expected = float(expected_load(counts, rates, workers, *rectangle))
    if workers == 1 or rectangle.cells == 1:
        load = np.atleast_1d(counts.load(rates, *rectangle))
        return Node(rectangle, workers, None, (), load, expected)
    low_before, high_before = before.children if before and before.children else (None, None)
    if before and low_before and high_before and before.axis is not None and can_cut(before.axis, rectangle):
        sizes = (low_before.workers, high_before.workers)
        corrections = (low_before.misjudged, high_before.misjudged)
        cut = cut_along(before.axis, rectangle, *sizes, counts, rates, corrections)
    else:
        cut, low_before, high_before = best_cut(rectangle, workers, counts, rates), None, None
    children = (
        grow(cut.low, cut.low_workers, counts, rates, low_before),
        grow(cut.high, cut.high_workers, counts, rates, high_before),
    )
    loads = np.concatenate([child.loads for child in children])
    return Node(rectangle, workers, cut.axis, children, loads, expected)
