"""Walk down the tree of a plan that shares by object: objects to one unit each, boxes to all units that they touch."""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.postings import find_values
from pststream.kernels.sort_and_search import with_room


class NodeArrays(NamedTuple):
    """The tree of `plans.plan_nodes.PlanNodes` as kernels take it.

    rectangle, by_text, unit, objects  as documented there
    keywords               int64[2^b, 2] hash table of the keywords of all nodes: their places, ascending by id
    node_offsets           int64[w+1]    slice of `listing`, `asked`, `holders` of each keyword
    listing                int32[m]      nodes that list the keyword, ascending
    asked, holders         int64[m], uint8[m]  as documented there, of the keyword in that node
    first_child, children  int32[n]      first child of each node, and the number of its children
    known, total           int64[n]      of `PlanNodes.known_keywords`
    shares                 float64[l+1]  share of the queries with 0, 1, .. keywords
    start                  int32[leaves] node where the walks from the raster cells of a leaf begin
    """

    rectangle: np.ndarray
    by_text: np.ndarray
    unit: np.ndarray
    objects: np.ndarray
    keywords: np.ndarray
    node_offsets: np.ndarray
    listing: np.ndarray
    asked: np.ndarray
    holders: np.ndarray
    first_child: np.ndarray
    children: np.ndarray
    known: np.ndarray
    total: np.ndarray
    shares: np.ndarray
    start: np.ndarray


@kernel
def covered(known: float, shares: np.ndarray) -> float:
    """Return S(H) of SSTD's Equation 1: the share of queries that have all their keywords among the known ones."""
    result = 0.0
    for length in range(len(shares) - 1, -1, -1):
        result = result * known + shares[length]
    return result


@kernel
def choose_child(
    gains: np.ndarray, known: np.ndarray, objects: np.ndarray, first: int, total: int, shares: np.ndarray
) -> int:
    """Return the child whose workload an object increases least, of equal ones the first.

    gains           int64[children]  how often the object's keywords that each child lacks are asked for
    known, objects  int64[nodes]     of the children from `first` on
    total           how often any keyword is asked for
    """
    best, least = 0, np.inf
    whole = float(max(total, 1))
    for child in range(len(gains)):
        lists, count = known[first + child], objects[first + child]
        after = covered((lists + gains[child]) / whole, shares) * (count + 1)
        increment = after - covered(lists / whole, shares) * count
        if increment < least:
            best, least = child, increment
    return best


@kernel
def add_gains(asked: int, holders: int, gains: np.ndarray) -> None:
    """Add a keyword of an object to the gains of the children that lack it."""
    for child in range(len(gains)):
        if not (holders >> child) & 1:
            gains[child] += asked


@kernel
def find_object_units(
    cells: np.ndarray,
    columns: int,
    object_offsets: np.ndarray,
    object_terms: np.ndarray,
    cell_leaf: np.ndarray,
    nodes: NodeArrays,
    children: int,
) -> np.ndarray:
    """Return the unit of each object: int32[objects].

    cells                         int64[objects]         raster cell of each object
    object_offsets, object_terms  int64[n+1], int64[m]   distinct terms of each object
    cell_leaf                     int32[cells]           leaf of each raster cell
    children                      of a node by text
    """
    rectangle, by_text, unit, objects, keywords, node_offsets, listing, asked, holders = nodes[:9]
    first_child, _, known, total, shares, start = nodes[9:]
    words = find_values(object_terms, keywords)
    units = np.empty(len(cells), np.int32)
    gains = np.empty(children, np.int64)
    for i in range(len(cells)):
        node = start[cell_leaf[cells[i]]]
        row, column = divmod(cells[i], columns)
        while unit[node] < 0:
            first = first_child[node]
            if by_text[node]:
                # Sum what the keywords of the object add to each child, and take the least increment.
                gains[:] = 0
                for t in range(object_offsets[i], object_offsets[i + 1]):
                    if words[t] >= 0:
                        place, end = node_offsets[words[t]], node_offsets[words[t] + 1]
                        while place < end and listing[place] < node:
                            place += 1
                        if place < end and listing[place] == node:
                            add_gains(asked[place], holders[place], gains)
                node = first + choose_child(gains, known, objects, first, total[node], shares)
                continue
            # The children divide the cells: take the one that has the cell.
            node = first
            while not (
                rectangle[node, 0] <= column <= rectangle[node, 2] and rectangle[node, 1] <= row <= rectangle[node, 3]
            ):
                node += 1
        units[i] = unit[node]
    return units


@kernel
def find_range_owners(
    ranges: np.ndarray, posted: np.ndarray, nodes: NodeArrays, owner: np.ndarray, owners: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the owners of the units that each range of raster cells touches.

    ranges  int32[n, 4]   first column, first row, last column, last row
    posted  bool[n]       ranges that count; the others have no owner
    owner   int32[units]  owner of each unit, below `owners`
    Returns offsets int64[n+1], owners int32[k], ascending inside a range.
    """
    rectangle, unit, first_child, children = nodes.rectangle, nodes.unit, nodes.first_child, nodes.children
    offsets = np.zeros(len(ranges) + 1, np.int64)
    out = np.empty(len(ranges) + owners, np.int32)
    seen = np.full(owners, -1, np.int64)
    stack = np.empty(len(unit), np.int32)
    size = 0
    for i in range(len(ranges)):
        first, open_nodes = size, int(posted[i])
        out = with_room(out, size + owners)
        stack[0] = 0
        while open_nodes and size - first < owners:
            open_nodes -= 1
            node = stack[open_nodes]
            if (
                rectangle[node, 0] > ranges[i, 2]
                or rectangle[node, 2] < ranges[i, 0]
                or rectangle[node, 1] > ranges[i, 3]
                or rectangle[node, 3] < ranges[i, 1]
            ):
                continue
            if unit[node] < 0:
                for child in range(first_child[node], first_child[node] + children[node]):
                    stack[open_nodes] = child
                    open_nodes += 1
            elif seen[owner[unit[node]]] != i:
                seen[owner[unit[node]]] = i
                out[size] = owner[unit[node]]
                size += 1
        if size - first > 1:
            out[first:size].sort()
        offsets[i + 1] = size
    return offsets, out[:size].copy()
