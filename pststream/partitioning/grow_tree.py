"""Growing a kd-tree, or a kd-text tree, over a region for a number of workers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pststream.cost.load_model import LoadRates
from pststream.cost.region_counts import RegionCounts
from pststream.partitioning.rectangle_cuts import Rectangle, best_cut, can_cut, cut_along, expected_load
from pststream.partitioning.text_split import TextPart

PASSES = 4
"""Trees that are grown; later ones change little."""

ByText = Callable[[Rectangle, int, float], list[TextPart]]
"""A rectangle by text for so many workers, each loaded less than a bound in seconds; no parts if that cannot be."""


@dataclass(frozen=True)
class Node:
    """A node of the tree with all below it.

    axis      of its cut, None in a leaf
    by_text   the parts of a leaf that is partitioned by text
    loads     seconds, float64: Definition 1 of each worker below
    expected  seconds: what a worker was expected to have before the node was cut
    """

    rectangle: Rectangle
    workers: int
    axis: int | None
    children: tuple["Node", ...]
    by_text: tuple[TextPart, ...]
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


def best_tree(
    rectangle: Rectangle, workers: int, counts: RegionCounts, rates: LoadRates, by_text: ByText | None = None
) -> Node:
    """The tree over a rectangle whose most loaded worker is least loaded, of a few.

    Each cut takes the direction and the position at which the more loaded side is the least loaded, where the load of
    a side is what one of its workers is expected to have once the side is cut further (`cuts.expected_load`). As that
    is a guess, the tree is grown again a few times with the same directions, each guess corrected by what came of it
    the time before. With fewer cells than workers there are fewer leaves than workers.
    """
    best = tree = _grow(rectangle, workers, counts, rates, by_text, None)
    for _ in range(PASSES - 1):
        tree = _grow(rectangle, workers, counts, rates, by_text, tree)
        if tree.loads.max() < best.loads.max():
            best = tree
    return best


def _grow(
    rectangle: Rectangle,
    workers: int,
    counts: RegionCounts,
    rates: LoadRates,
    by_text: ByText | None,
    before: Node | None,
) -> Node:
    """The tree over a rectangle; `before` is the node in its place in the tree grown last."""
    expected = float(expected_load(counts, rates, workers, *rectangle))
    if before and before.by_text and by_text and workers > 1 and (parts := by_text(rectangle, workers, np.inf)):
        return Node(rectangle, workers, None, (), tuple(parts), np.array([part.load for part in parts]), expected)
    if workers == 1 or rectangle.cells == 1:
        load = np.atleast_1d(counts.load(rates, *rectangle))
        leaf = Node(rectangle, workers, None, (), (), load, expected)
        return _or_by_text(leaf, by_text) if workers > 1 and before is None else leaf
    low_before, high_before = before.children if before and before.children else (None, None)
    if before and low_before and high_before and before.axis is not None and can_cut(before.axis, rectangle):
        sizes = (low_before.workers, high_before.workers)
        corrections = (low_before.misjudged, high_before.misjudged)
        cut = cut_along(before.axis, rectangle, *sizes, counts, rates, corrections)
    else:
        cut, low_before, high_before = best_cut(rectangle, workers, counts, rates), None, None
    children = (
        _grow(cut.low, cut.low_workers, counts, rates, by_text, low_before),
        _grow(cut.high, cut.high_workers, counts, rates, by_text, high_before),
    )
    loads = np.concatenate([child.loads for child in children])
    by_space = Node(rectangle, workers, cut.axis, children, (), loads, expected)
    return _or_by_text(by_space, by_text) if before is None else by_space


def _or_by_text(node: Node, by_text: ByText | None) -> Node:
    """The node partitioned by text instead, if its most loaded worker is then less loaded."""
    parts = by_text(node.rectangle, node.workers, float(node.loads.max())) if by_text else []
    if not parts:
        return node
    loads = np.array([part.load for part in parts])
    if loads.max() >= node.loads.max():
        return node
    return Node(node.rectangle, node.workers, None, (), tuple(parts), loads, node.expected)
