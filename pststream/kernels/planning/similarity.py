"""Compute the cosine similarity of the terms of objects and subscriptions on each side of the cuts of many nodes.

Occurrences are ordered by term. One pass counts each term in every region and adds it to the three sums of the region
(dot product and two squared norms). So a level of a tree costs one pass, no matter how many nodes it has.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.routing.pyramid import Pyramid, find_distinct_codes, make_search

SIDES = 4
"""Regions of a node: west and east of its cut between columns, south and north of its cut between rows."""


@kernel
def find_nodes_of_pieces(ranges: np.ndarray, nodes: Pyramid, no_node: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the nodes that each box touches: offsets int64[n+1], nodes int32[k].

    ranges  int32[n, 4]  first column, first row, last column, last row
    nodes   pyramid over the node of each raster cell
    no_node code of the raster cells that belong to no node; it is left out of the result
    """
    start = np.zeros(len(ranges) + 1, np.int64)
    piece_nodes = np.empty(len(ranges) + nodes.kinds, np.int32)
    search = make_search(nodes)
    codes = search.codes
    size = 0
    for piece in range(len(ranges)):
        if size + nodes.kinds > len(piece_nodes):
            longer = np.empty(2 * (size + nodes.kinds), np.int32)
            longer[:size] = piece_nodes[:size]
            piece_nodes = longer
        for i in range(find_distinct_codes(ranges[piece], nodes, search, piece)):
            if codes[i] != no_node:
                piece_nodes[size] = codes[i]
                size += 1
        start[piece + 1] = size
    return start, piece_nodes[:size].copy()


@kernel
def compute_side_similarities(
    objects_by_term: tuple[np.ndarray, np.ndarray],
    pieces_by_term: tuple[np.ndarray, np.ndarray],
    cells: tuple[np.ndarray, np.ndarray, np.ndarray],
    ranges: np.ndarray,
    nodes_of_piece: tuple[np.ndarray, np.ndarray],
    cuts: np.ndarray,
) -> np.ndarray:
    """Compute the cosine of the term counts of objects and boxes on each side of each node: float64[nodes, SIDES].

    objects_by_term  int64[terms+1], int32[n]    objects that have each term
    pieces_by_term   int64[terms+1], int32[m]    boxes posted under each term
    cells            int32[objects] column and row of each object, int32[objects] its node, or one beyond the last
    ranges           int32[pieces, 4]            raster cells of each box
    nodes_of_piece   as `find_nodes_of_pieces` returns it
    cuts             int64[nodes, 2]             last column of the west side, last row of the south side

    A side without objects or without boxes, and a side that a node does not have, has similarity 1.
    """
    object_start, objects = objects_by_term
    piece_start, pieces = pieces_by_term
    column, row, node_of = cells
    node_start, node_list = nodes_of_piece
    size = SIDES * len(cuts)
    of_objects, of_pieces = np.zeros(size), np.zeros(size)
    touched = np.empty(size, np.int64)
    last_term = np.full(size, -1, np.int64)
    sums = np.zeros((size, 3))
    for term in range(len(object_start) - 1):
        # Count the objects with the term on two sides of their node.
        count = 0
        for i in range(object_start[term], object_start[term + 1]):
            o = objects[i]
            node = np.int64(node_of[o])
            if node < len(cuts):
                first = SIDES * node + (1 if column[o] > cuts[node, 0] else 0)
                count = _add(first, term, of_objects, last_term, touched, count)
                second = SIDES * node + (3 if row[o] > cuts[node, 1] else 2)
                count = _add(second, term, of_objects, last_term, touched, count)
        # Count the boxes posted under the term on all sides that they touch.
        for i in range(piece_start[term], piece_start[term + 1]):
            p = pieces[i]
            for n in range(node_start[p], node_start[p + 1]):
                node = np.int64(node_list[n])
                if ranges[p, 0] <= cuts[node, 0]:
                    count = _add(SIDES * node, term, of_pieces, last_term, touched, count)
                if ranges[p, 2] > cuts[node, 0]:
                    count = _add(SIDES * node + 1, term, of_pieces, last_term, touched, count)
                if ranges[p, 1] <= cuts[node, 1]:
                    count = _add(SIDES * node + 2, term, of_pieces, last_term, touched, count)
                if ranges[p, 3] > cuts[node, 1]:
                    count = _add(SIDES * node + 3, term, of_pieces, last_term, touched, count)
        # Add the counts to the sums of the touched sides, and clear them for the next term.
        for i in range(count):
            side = touched[i]
            o, p = of_objects[side], of_pieces[side]
            sums[side, 0] += o * p
            sums[side, 1] += o * o
            sums[side, 2] += p * p
            of_objects[side] = of_pieces[side] = 0.0
    return _cosines(sums).reshape(len(cuts), SIDES)


@kernel
def _add(side: int, term: int, counts: np.ndarray, last_term: np.ndarray, touched: np.ndarray, count: int) -> int:
    """Count one occurrence on a side, and list the side once for each term; return the length of the list."""
    if last_term[side] != term:
        last_term[side] = term
        touched[count] = side
        count += 1
    counts[side] += 1.0
    return count


@kernel
def _cosines(sums: np.ndarray) -> np.ndarray:
    """Divide the dot products by the norms; 1 where a norm is 0."""
    cosines = np.ones(len(sums))
    for i in range(len(sums)):
        if sums[i, 1] > 0.0 and sums[i, 2] > 0.0:
            cosines[i] = sums[i, 0] / np.sqrt(sums[i, 1] * sums[i, 2])
    return cosines
