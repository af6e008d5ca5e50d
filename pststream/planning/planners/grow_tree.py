"""Cut a rectangle recursively into a kd-tree for its workers: one a leaf, or several where a leaf is divided by text.

The kd-tree and hybrid planners call it. Several trees are grown, and the one with the least greatest load is kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pststream.kernels.planning.term_runs import (
    RankedRows,
    count_terms,
    cut_into_term_runs,
    find_objects_inside,
    find_pieces_touching,
    group_rows_by_rank,
    sum_by_term,
)
from pststream.planning.live_terms import SortedSample
from pststream.planning.load_model import LoadRates
from pststream.planning.planners.rectangle_cuts import Rectangle, can_cut, cut_along, estimate_load, find_best_cut
from pststream.planning.region_counts import RegionCounts

MIN_ROWS = 500
"""Minimum number of objects and of boxes to try text on a node of N_s: fewer do not show which terms occur together."""


@dataclass(frozen=True)
class TermGroup:
    """Terms of a region that one unit serves, and the load of the unit.

    terms          int32[n]   numbers of `SortedSample.term_ids`, in the order of the cut
    objects        int        objects with one of the terms
    subscriptions  int        boxes posted under one of them
    reads          int        postings that the objects read under these terms
    load           float      seconds
    """

    terms: np.ndarray
    objects: int
    subscriptions: int
    reads: int
    load: float


class RegionTerms:
    """The objects and boxes of a region grouped by term, to be cut into term groups.

    Terms are ordered by the number of objects per box posted under them, least first (equal ones by id), and the order
    is cut into runs. So the rarest terms, which bring a worker many subscriptions and few objects, stay together. The
    most frequent terms stay together too: nearly every object has several of them, and counts once. Terms under which
    no box of the region is posted come last, where they add hardly any objects.

    PS2Stream does not say how PartitionNode cuts the terms. This order is used because Definition 1 has a product: runs
    of equal frequency keep one of its factors small, while assigning terms by frequency alone keeps neither small. The
    number of posting reads is the same in any order.
    """

    def __init__(self, rectangle: Rectangle, sample: SortedSample, only: np.ndarray | None = None) -> None:
        """Group the rows of a rectangle by term.

        only  int32[n], the terms to include; None: all
        """
        # Find the objects and boxes of the rectangle.
        box, columns = tuple(rectangle), sample.grid.columns
        objects = find_objects_inside(*box, columns, sample.cell_start, sample.object_terms[0])
        pieces = find_pieces_touching(*box, sample.ranges, sample.piece_terms[0])
        # Order the terms by objects per box.
        objects_of_term = count_terms(objects, *sample.object_terms, sample.terms)
        boxes_of_term = count_terms(pieces, *sample.piece_terms, sample.terms)
        terms = np.flatnonzero(objects_of_term + boxes_of_term) if only is None else np.sort(only)
        objects_per_box = objects_of_term[terms] / np.maximum(boxes_of_term[terms], 1e-9)
        self.terms = terms[np.argsort(objects_per_box, kind="stable")].astype(np.int32)
        # Group the rows by the rank of their terms.
        rank = np.full(sample.terms, -1, dtype=np.int32)
        rank[self.terms] = np.arange(len(self.terms))
        read = sum_by_term(objects, *sample.object_terms, sample.reads, sample.terms)
        self._reads = read[self.terms].astype(np.float64)
        self._members = (
            group_rows_by_rank(objects, *sample.object_terms, rank, len(self.terms)),
            group_rows_by_rank(pieces, *sample.piece_terms, rank, len(self.terms)),
        )
        self.enough = min(len(objects), len(pieces)) >= MIN_ROWS

    def cut(self, groups: int, rates: LoadRates, bound: float = np.inf) -> list[TermGroup]:
        """Return at most `groups` term groups whose greatest load is least in this order; none if it exceeds `bound`.

        There are fewer groups if there are fewer terms, or if one term alone is the greatest load.
        """
        (object_start, objects), (piece_start, pieces) = self._members
        ranks = RankedRows(
            object_start=object_start,
            objects=objects,
            piece_start=piece_start,
            pieces=pieces,
            read_seconds=rates.read * self._reads,
        )
        ends, objects, subscriptions = cut_into_term_runs(groups, float(bound), ranks, rates.row_rates)
        reads = np.add.reduceat(self._reads, ends[:-1]) if len(objects) and len(self.terms) else np.zeros(len(objects))
        loads = rates.load(objects.astype(np.float64), subscriptions.astype(np.float64), reads)
        if len(loads) and loads.max() > bound:
            return []
        return [
            TermGroup(self.terms[ends[i] : ends[i + 1]], int(o), int(s), int(r), float(loads[i]))
            for i, (o, s, r) in enumerate(zip(objects, subscriptions, reads))
        ]


PASSES = 4
"""Number of trees that are grown; more of them change little."""

ByText = Callable[[Rectangle, int, float], list[TermGroup]]
"""Divides the terms of a rectangle among a number of workers whose loads stay below a bound in seconds.

Returns no groups if that is impossible.
"""


@dataclass(frozen=True)
class Node:
    """A node of the tree, with all nodes below it.

    axis      axis of the cut; None in a leaf
    by_text   the term groups of a leaf that is partitioned by text
    loads     seconds, float64: Definition 1 of each worker below
    expected  seconds: the load of a worker that was expected before the node was cut
    """

    rectangle: Rectangle
    workers: int
    axis: int | None
    children: tuple["Node", ...]
    by_text: tuple[TermGroup, ...]
    loads: np.ndarray
    expected: float

    @property
    def correction(self) -> float:
        """Mean load of a worker below the node over the load that was expected; 1 if none was."""
        return float(self.loads.mean()) / self.expected if self.expected > 0.0 else 1.0

    def leaves(self) -> Iterator["Node"]:
        """Yield the leaves below the node, low sides first."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def grow_best_tree(
    rectangle: Rectangle, workers: int, counts: RegionCounts, rates: LoadRates, by_text: ByText | None = None
) -> Node:
    """Grow several trees over a rectangle, and return the one whose most loaded worker is least loaded.

    Each cut takes the direction and the position at which the more loaded side is least loaded. The load of a side is
    the expected load of one of its workers once the side is cut further (`rectangle_cuts.estimate_load`). As this is an
    estimate, the tree is grown again a few times with the same directions; each estimate is corrected by the loads of
    the tree before. With fewer raster cells than workers there are fewer leaves than workers.
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
    """Grow a tree over a rectangle; `before` is the node at its place in the tree grown last."""
    # A rectangle of one worker is a leaf, and its load needs no estimate.
    if workers == 1:
        load = float(counts.load(rates, *rectangle))
        return Node(rectangle, workers, None, (), (), np.array([load]), load)
    expected = float(estimate_load(counts, rates, workers, *rectangle))
    # A leaf that was partitioned by text remains so.
    if before and before.by_text and by_text and (groups := by_text(rectangle, workers, np.inf)):
        return Node(rectangle, workers, None, (), tuple(groups), np.array([group.load for group in groups]), expected)
    # A rectangle of one raster cell is a leaf.
    if rectangle.cells == 1:
        loads = np.atleast_1d(counts.load(rates, *rectangle))
        leaf = Node(rectangle, workers, None, (), (), loads, expected)
        return _or_by_text(leaf, by_text) if before is None else leaf
    # Cut again in the same direction, with corrected estimates, or find the best cut.
    low_before, high_before = before.children if before and before.children else (None, None)
    if before and low_before and high_before and before.axis is not None and can_cut(before.axis, rectangle):
        sizes = (low_before.workers, high_before.workers)
        corrections = (low_before.correction, high_before.correction)
        cut = cut_along(before.axis, rectangle, *sizes, counts, rates, corrections)
    else:
        cut, low_before, high_before = find_best_cut(rectangle, workers, counts, rates), None, None
    # Grow both sides; in the first tree, partition by text instead if that is better.
    children = (
        _grow(cut.low, cut.low_workers, counts, rates, by_text, low_before),
        _grow(cut.high, cut.high_workers, counts, rates, by_text, high_before),
    )
    loads = np.concatenate([child.loads for child in children])
    by_space = Node(rectangle, workers, cut.axis, children, (), loads, expected)
    return _or_by_text(by_space, by_text) if before is None else by_space


def _or_by_text(node: Node, by_text: ByText | None) -> Node:
    """Return the node partitioned by text instead, if its most loaded worker is then less loaded."""
    groups = by_text(node.rectangle, node.workers, float(node.loads.max())) if by_text else []
    if not groups:
        return node
    loads = np.array([group.load for group in groups])
    if loads.max() >= node.loads.max():
        return node
    return Node(node.rectangle, node.workers, None, (), tuple(groups), loads, node.expected)
