"""A QT-tree that grows: its leaves are split by space or by text, and children become one leaf again."""

import heapq
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from pststream.base.arrays import hash_integers
from pststream.kernels.planning.term_runs import divide_by_text
from pststream.planning.papers.quadtree import quarter
from pststream.planning.papers.query_statistics import NodeRows, QueryStatistics
from pststream.planning.planners.rectangle_cuts import SAME, Rectangle
from pststream.plans.plan_nodes import CHILDREN, PlanNodes

_OF_WORDS, _OF_CELLS = 3, 4
"""Salts of the hashes of words and of raster cells."""


class KeywordLists(NamedTuple):
    """The keyword lists of the children of a node by text.

    terms    int64[n]  ids of the keywords that queries of the node have, ascending
    asked    int64[n]  number of these queries
    holders  uint8[n]  bit c: the list of child c has the keyword
    """

    terms: np.ndarray
    asked: np.ndarray
    holders: np.ndarray


@dataclass
class TreeNode:
    """A node of a growing tree.

    parent    number of the node above; -1: the root
    rows      the sampled objects that come to it, and the boxes that touch its rectangle
    workload  of SSTD's Equation 2
    objects   number of objects that came to it when it was made
    children  their numbers; empty: it is a leaf
    lists     the keyword lists of the children of a node by text; None: by space, or a leaf
    """

    parent: int
    rectangle: Rectangle
    rows: NodeRows
    workload: float
    objects: int
    children: list[int] = field(default_factory=list)
    lists: KeywordLists | None = None


class GrowingTree:
    """The nodes of a tree, the root first, and the ways to split them.

    statistics  of the sample that the tree is split by
    nodes       of a tree that is there already; None: a root with all rows
    queries     of `PlanNodes`; None: those of the sample

    Source: SSTD, section 4.1.2, Algorithm 1. Departures: quarters are whole raster cells, so a node of one column or
    row has two of them, and a node of one cell none. A node all of whose objects would go to one child is not split by
    text. Objects are given to the children in the order of a hash of their raster cell and words, as a sample has no
    order. The workloads are those of `QueryStatistics.workload`, which names more departures.
    """

    def __init__(
        self, statistics: QueryStatistics, nodes: list[TreeNode] | None = None, queries: np.ndarray | None = None
    ) -> None:
        self.statistics = statistics
        self._order = hash_contents(statistics)
        self._queries = statistics.queries if queries is None else queries
        self._dropped = set[int]()
        grid = statistics.sample.grid
        whole = Rectangle(0, 0, grid.columns - 1, grid.rows - 1)
        self.nodes = [self._node(-1, whole, statistics.whole)] if nodes is None else nodes

    @property
    def leaves(self) -> list[int]:
        """Numbers of the leaves, ascending."""
        return [number for number in self._kept() if not self.nodes[number].children]

    def has_leaves_only(self, number: int) -> bool:
        """Return whether a node has children, and these have none."""
        children = self.nodes[number].children
        return bool(children) and not any(self.nodes[child].children for child in children)

    def split(self, number: int, by_space: bool, by_text: bool) -> bool:
        """Split a leaf in one of the allowed ways, the one whose children have less workload in sum, by space if they
        have as much; return whether it can be split.
        """
        space = self._divide_by_space(number) if by_space else []
        text, lists = self._divide_by_text(number) if by_text else ([], None)
        if space and (not text or _sum(space) <= _sum(text) * SAME):
            self._add(number, space, None)
        elif text:
            self._add(number, text, lists)
        return bool(space or text)

    def merge(self, number: int) -> None:
        """Make a node whose children are leaves a leaf."""
        node = self.nodes[number]
        self._dropped.update(node.children)
        node.children, node.lists = [], None

    def grow(self, theta: int, by_space: bool) -> None:
        """Split the leaf with the greatest workload, of equal ones the one that was made first, by text, or by space if
        that is allowed, until there are `theta` leaves or up to two more, or none can be split.
        """
        heap = [(-self.nodes[number].workload, number) for number in self.leaves]
        heapq.heapify(heap)
        leaves = len(heap)
        while heap and leaves < theta:
            _, number = heapq.heappop(heap)
            if self.split(number, by_space, by_text=True):
                children = self.nodes[number].children
                leaves += len(children) - 1
                for child in children:
                    heapq.heappush(heap, (-self.nodes[child].workload, child))

    def _divide_by_space(self, number: int) -> list[TreeNode]:
        """Return the quarters of a node; none if it is one raster cell."""
        node = self.nodes[number]
        if node.rectangle.cells == 1:
            return []
        quarters = quarter(node.rectangle)
        rows = [self.statistics.inside(node.rows, *rectangle) for rectangle in quarters]
        return [self._node(number, rectangle, own) for rectangle, own in zip(quarters, rows)]

    def _divide_by_text(self, number: int) -> tuple[list[TreeNode], KeywordLists | None]:
        """Return the children of a node by text and their keyword lists; none if one child would get all objects."""
        node, statistics = self.nodes[number], self.statistics
        objects = node.rows.objects[np.argsort(self._order[node.rows.objects], kind="stable")]
        asked = statistics.count_keywords(node.rows).astype(np.int64)
        shares = self._queries / max(int(self._queries.sum()), 1)
        child, counts, holders = divide_by_text(objects, *statistics.object_words, asked, shares, CHILDREN)
        if np.count_nonzero(counts) < 2:
            return [], None
        rows = [replace(node.rows, objects=objects[child == one]) for one in range(CHILDREN)]
        known = np.flatnonzero(asked)
        lists = KeywordLists(statistics.words[known], asked[known], holders[known])
        return [self._node(number, node.rectangle, own) for own in rows], lists

    def _node(self, parent: int, rectangle: Rectangle, rows: NodeRows) -> TreeNode:
        return TreeNode(parent, rectangle, rows, self.statistics.workload(rows), len(rows.objects))

    def _add(self, number: int, children: list[TreeNode], lists: KeywordLists | None) -> None:
        node = self.nodes[number]
        node.children, node.lists = list(range(len(self.nodes), len(self.nodes) + len(children))), lists
        self.nodes += children

    def _kept(self) -> list[int]:
        """Numbers of the nodes of the tree, ascending."""
        return [number for number in range(len(self.nodes)) if number not in self._dropped]

    def plan_nodes(self) -> PlanNodes:
        """Return the tree as a plan has it; the leaves, in their order, are its units."""
        kept = self._kept()
        nodes, index = [self.nodes[number] for number in kept], {number: at for at, number in enumerate(kept)}
        none = KeywordLists(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8))
        lists = [none if node.lists is None else node.lists for node in nodes]
        is_leaf = np.array([not node.children for node in nodes])
        return PlanNodes(
            parent=np.array([index.get(node.parent, -1) for node in nodes], np.int32),
            rectangle=np.array([node.rectangle for node in nodes], np.int32),
            by_text=np.array([node.lists is not None for node in nodes]),
            unit=np.where(is_leaf, np.cumsum(is_leaf) - 1, -1).astype(np.int32),
            objects=np.array([node.objects for node in nodes], np.int64),
            term_offsets=np.append(0, np.cumsum([len(own.terms) for own in lists])).astype(np.int64),
            terms=np.concatenate([own.terms for own in lists]),
            asked=np.concatenate([own.asked for own in lists]),
            holders=np.concatenate([own.holders for own in lists]),
            queries=self._queries.astype(np.int64),
        )


def _sum(nodes: list[TreeNode]) -> float:
    return sum(node.workload for node in nodes)


def restore_tree(statistics: QueryStatistics, nodes: PlanNodes, unit_of_object: np.ndarray) -> GrowingTree:
    """Return the tree of a plan with the rows of a sample; counts and keyword lists are those of the plan.

    unit_of_object  int[objects]  unit of each object of the sorted sample
    """
    first, number = nodes.child_slices()
    live = statistics.whole.objects
    node_of_unit = np.empty(nodes.units, np.int64)
    node_of_unit[nodes.unit[nodes.unit >= 0]] = np.flatnonzero(nodes.unit >= 0)
    leaf = node_of_unit[unit_of_object[live]]
    restored = []
    for node in range(nodes.count):
        rectangle = Rectangle(*nodes.rectangle[node].tolist())
        inside = statistics.inside(statistics.whole, *rectangle)
        rows = replace(inside, objects=live[np.isin(leaf, nodes.below(node))])
        children = list(range(int(first[node]), int(first[node] + number[node])))
        own = slice(nodes.term_offsets[node], nodes.term_offsets[node + 1])
        lists = KeywordLists(nodes.terms[own], nodes.asked[own], nodes.holders[own]) if nodes.by_text[node] else None
        workload, objects = statistics.workload(rows), int(nodes.objects[node])
        restored.append(TreeNode(int(nodes.parent[node]), rectangle, rows, workload, objects, children, lists))
    return GrowingTree(statistics, restored, nodes.queries)


def hash_contents(statistics: QueryStatistics) -> np.ndarray:
    """Return a hash of the raster cell and the keywords of each object of the sorted sample: uint64[objects]."""
    sample = statistics.sample
    offsets, terms = statistics.object_words
    words = hash_integers(statistics.words, _OF_WORDS)
    sums = np.append(np.zeros(1, np.uint64), np.cumsum(words[terms], dtype=np.uint64))
    cells = sample.row.astype(np.int64) * sample.grid.columns + sample.column
    return hash_integers((hash_integers(cells, _OF_CELLS) ^ (sums[offsets[1:]] - sums[offsets[:-1]])).view(np.int64))
