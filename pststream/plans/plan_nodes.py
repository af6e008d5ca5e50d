"""The tree of a plan that shares by object: nodes that divide their objects among their children by space or by text.

A node divides by space if its children have parts of its rectangle, and by text if they all have its rectangle. Then
each object goes to one child, the one whose workload it increases least (SSTD, section 4.2), and a subscription is
stored for all children that its boxes touch. What that takes is frozen with the plan, so the child of an object is a
function of the plan and the object.
"""

from dataclasses import dataclass

import numpy as np

from pststream.base.arrays import distinct_values

CHILDREN = 4
"""Children of a node by text, and at most of a node by space."""


@dataclass(frozen=True)
class PlanNodes:
    """The nodes of a tree, the root first, a parent before its children, the children of a node one after another.

    parent        int32[n]      node above; -1: the root
    rectangle     int32[n, 4]   first column, first row, last column, last row of its raster cells
    by_text       bool[n]       whether it has children that divide its objects by text
    unit          int32[n]      unit of a leaf; -1: it has children
    objects       int64[n]      objects of the sample that came to it
    term_offsets  int64[n+1]    slice of `terms`, `asked`, `holders` of each node by text
    terms         int64[m]      keywords of queries that touch its rectangle, ascending inside a node
    asked         int64[m]      number of these queries with the keyword
    holders       uint8[m]      bit c: the keyword list of child c has the keyword
    queries       int64[l+1]    number of all queries with 0, 1, .. keywords
    """

    parent: np.ndarray
    rectangle: np.ndarray
    by_text: np.ndarray
    unit: np.ndarray
    objects: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray
    asked: np.ndarray
    holders: np.ndarray
    queries: np.ndarray

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @property
    def units(self) -> int:
        """Number of leaves, each of which has a unit."""
        return int(np.count_nonzero(self.unit >= 0))

    def child_slices(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first child of each node, 0 if it has none, and the number of children: int32[n] each."""
        first, number = np.zeros((2, self.count), np.int32)
        parents, indices, counts = np.unique(self.parent[1:], return_index=True, return_counts=True)
        first[parents], number[parents] = indices + 1, counts
        return first, number

    def known_keywords(self) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each child of a node by text, how often its keyword list is asked for, and for each node by text
        how often any keyword is: int64[n] each. The first over the second of its parent is H of SSTD's Equation 1.
        """
        known, total = np.zeros((2, self.count), np.int64)
        first, _ = self.child_slices()
        for node in np.flatnonzero(self.by_text).tolist():
            own = slice(self.term_offsets[node], self.term_offsets[node + 1])
            total[node] = self.asked[own].sum()
            for child in range(CHILDREN):
                known[first[node] + child] = self.asked[own][(self.holders[own] >> child) & 1 == 1].sum()
        return known, total

    def starts(self) -> np.ndarray:
        """Return the nodes where a walk begins, ascending: nodes by text and leaves that have no node by text above."""
        below_text = np.zeros(self.count, bool)
        for node, parent in enumerate(self.parent.tolist()[1:], start=1):
            below_text[node] = below_text[parent] or self.by_text[parent]
        return np.flatnonzero(~below_text & (self.by_text | (self.unit >= 0)))

    def below(self, node: int) -> np.ndarray:
        """Return a node and all nodes below it, ascending."""
        is_below = np.zeros(self.count, bool)
        is_below[node] = True
        for other in range(node + 1, self.count):
            is_below[other] = is_below[self.parent[other]]
        return np.flatnonzero(is_below)


def find_child(
    nodes: PlanNodes, node: int, known: np.ndarray, total: np.ndarray, first: np.ndarray, words: set[int]
) -> int:
    """Return the child of a node by text that an object with these terms goes to, slowly: for one object at a time.

    known, total, first  of `known_keywords` and `child_slices`
    The kernel `kernels.routing.tree_walk.choose_child` computes the same for many objects.
    """
    own = slice(nodes.term_offsets[node], nodes.term_offsets[node + 1])
    shares = (nodes.queries / max(int(nodes.queries.sum()), 1)).tolist()
    asked = [
        (number, holders)
        for term, number, holders in zip(nodes.terms[own].tolist(), nodes.asked[own].tolist(), nodes.holders[own])
        if term in words
    ]
    increments = []
    for child in range(CHILDREN):
        index = int(first[node]) + child
        more = int(known[index]) + sum(number for number, holders in asked if not (holders >> child) & 1)
        count = int(nodes.objects[index])
        after = _covered(more / max(int(total[node]), 1), shares) * (count + 1)
        increments.append(after - _covered(int(known[index]) / max(int(total[node]), 1), shares) * count)
    return int(first[node]) + increments.index(min(increments))


def find_unit(nodes: PlanNodes, column: int, row: int, words: set[int]) -> int:
    """Return the unit of an object in a raster cell, slowly: for one object at a time."""
    first, number = nodes.child_slices()
    known, total = nodes.known_keywords()
    node = 0
    while nodes.unit[node] < 0:
        if nodes.by_text[node]:
            node = find_child(nodes, node, known, total, first, words)
            continue
        children = np.arange(first[node], first[node] + number[node])
        west, south, east, north = nodes.rectangle[children].T
        node = int(children[(west <= column) & (column <= east) & (south <= row) & (row <= north)][0])
    return int(nodes.unit[node])


def _covered(known: float, shares: list[float]) -> float:
    """Return S(H) of SSTD's Equation 1: the share of queries whose keywords are all known."""
    covered = 0.0
    for share in reversed(shares):
        covered = covered * known + share
    return covered


def paint_leaves(nodes: PlanNodes, columns: int, rows: int) -> np.ndarray:
    """Return for each raster cell the index in `starts` of the node where its walks begin: int32[cells]."""
    cell_leaf = np.full((rows, columns), -1, np.int32)
    for leaf, node in enumerate(nodes.starts().tolist()):
        west, south, east, north = nodes.rectangle[node].tolist()
        cell_leaf[south : north + 1, west : east + 1] = leaf
    return cell_leaf.ravel()


def describe_servers(nodes: PlanNodes, node: int, unit_worker: np.ndarray) -> tuple[bytes, ...]:
    """Return a key of a node and all below it, equal for nodes that divide the same objects among the same workers."""
    below = nodes.below(node)
    workers = np.where(nodes.unit[below] >= 0, unit_worker[np.maximum(nodes.unit[below], 0)], -1)
    if len(served := distinct_values(workers[workers >= 0])) == 1:
        return (served[0].astype(np.int32).tobytes(),)
    parent = np.searchsorted(below, nodes.parent[below])
    terms = np.concatenate([np.arange(*nodes.term_offsets[one : one + 2]) for one in below])
    lists = (nodes.terms[terms], nodes.asked[terms], nodes.holders[terms], nodes.queries)
    kept = (nodes.rectangle[below], nodes.by_text[below], nodes.objects[below], np.diff(nodes.term_offsets)[below])
    return tuple(array.tobytes() for array in (workers, parent, *kept, *lists))


def find_fault(nodes: PlanNodes, columns: int, rows: int) -> str | None:
    """Return the first rule that the tree breaks, None if it is one over the raster."""
    n = nodes.count
    shapes = {"rectangle": (n, 4), "by_text": (n,), "unit": (n,), "objects": (n,), "term_offsets": (n + 1,)}
    if n < 1 or any(getattr(nodes, name).shape != shape for name, shape in shapes.items()):
        return "a tree has a node, and one value of each column for each node"
    if nodes.parent[0] != -1 or not ((nodes.parent[1:] >= 0) & (nodes.parent[1:] < np.arange(1, n))).all():
        return "the root comes first, and parents before their children"
    first, number = nodes.child_slices()
    followed = first[nodes.parent[1:]] + number[nodes.parent[1:]] > np.arange(1, n)
    if not (followed.all() and (number <= CHILDREN).all() and (number[nodes.by_text] == CHILDREN).all()):
        return "the children of a node follow each other; a node by text has four"
    if sorted(nodes.unit[number == 0].tolist()) != list(range(nodes.units)) or (nodes.unit[number > 0] >= 0).any():
        return "each leaf has a unit, and no other node"
    return _find_fault_of_rectangles(nodes, columns, rows) or _find_fault_of_terms(nodes)


def _find_fault_of_rectangles(nodes: PlanNodes, columns: int, rows: int) -> str | None:
    if nodes.rectangle[0].tolist() != [0, 0, columns - 1, rows - 1]:
        return "the root has the whole raster"
    first, number = nodes.child_slices()
    for node in np.flatnonzero(number).tolist():
        west, south, east, north = nodes.rectangle[node].tolist()
        children = nodes.rectangle[first[node] : first[node] + number[node]] - (west, south, west, south)
        if nodes.by_text[node]:
            if not (children == (0, 0, east - west, north - south)).all():
                return "the children of a node by text have its rectangle"
            continue
        times = np.zeros((north - south + 1, east - west + 1), np.int64)
        inside = (children >= 0).all() and (children[:, 2:] <= (east - west, north - south)).all()
        for x0, y0, x1, y1 in children.tolist() if inside else []:
            times[y0 : y1 + 1, x0 : x1 + 1] += 1
        if not (times == 1).all():
            return "the children of a node by space have each of its raster cells once"
    return None


def _find_fault_of_terms(nodes: PlanNodes) -> str | None:
    lengths = np.diff(nodes.term_offsets)
    lists = (nodes.terms, nodes.asked, nodes.holders)
    whole = nodes.term_offsets[0] == 0 and all(len(values) == nodes.term_offsets[-1] for values in lists)
    if not whole or (lengths < 0).any() or lengths[~nodes.by_text].any():
        return "only nodes by text list keywords"
    if not ascend_in_slices(nodes.terms, nodes.term_offsets):
        return "the keywords of a node ascend"
    if (nodes.asked <= 0).any() or (nodes.holders >= 1 << CHILDREN).any():
        return "a listed keyword is asked for, and its holders are children"
    if (nodes.queries < 0).any() or (nodes.objects < 0).any():
        return "counts of objects and queries are at least 0"
    return None


def ascend_in_slices(values: np.ndarray, offsets: np.ndarray) -> bool:
    """Whether values ascend strictly inside each slice."""
    borders = np.zeros(len(values) + 1, dtype=bool)
    borders[offsets] = True
    return bool((borders[1:-1] | (values[1:] > values[:-1])).all()) if len(values) else True
