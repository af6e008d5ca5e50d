"""Cosine similarity of what objects say and subscriptions ask, in many regions at once.

The occurrences lie term by term. One pass over them counts each term in every region and adds its share to the regions'
three sums, so a level of a tree costs one pass, however many nodes it has.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.routing.pyramid import Pyramid, distinct_codes, new_search

SIDES = 4
"""Regions of a node: west, east of its cut between columns; south, north of its cut between rows."""


@kernel
def pieces_of_nodes(ranges: np.ndarray, nodes: Pyramid, idle: int) -> tuple[np.ndarray, np.ndarray]:
    """The nodes that each box touches: int64[n+1], int32[k]; the code `idle` of the raster is left out.

    ranges  int32[n, 4]  first column, first row, last column, last row
    nodes   pyramid over the node of each cell
    """
    start = np.zeros(len(ranges) + 1, np.int64)
    found = np.empty(len(ranges) + nodes.kinds, np.int32)
    search = new_search(nodes)
    codes = search.found
    size = 0
    for piece in range(len(ranges)):
        if size + nodes.kinds > len(found):
            longer = np.empty(2 * (size + nodes.kinds), np.int32)
            longer[:size] = found[:size]
            found = longer
        for i in range(distinct_codes(ranges[piece], nodes, search, piece)):
            if codes[i] != idle:
                found[size] = codes[i]
                size += 1
        start[piece + 1] = size
    return start, found[:size].copy()


@kernel
def side_similarities(
    objects_by_term: tuple[np.ndarray, np.ndarray],
    pieces_by_term: tuple[np.ndarray, np.ndarray],
    cells: tuple[np.ndarray, np.ndarray, np.ndarray],
    ranges: np.ndarray,
    nodes_of_piece: tuple[np.ndarray, np.ndarray],
    cuts: np.ndarray,
) -> np.ndarray:
    """Cosine of the term counts of objects and of boxes on each side of each node's two cuts: float64[nodes, SIDES].

    objects_by_term  int64[terms+1], int32[n]    objects that have each term
    pieces_by_term   int64[terms+1], int32[m]    boxes posted under each term
    cells            int32[objects] column and row of each object, int32[objects] its node, or one beyond the last
    ranges           int32[pieces, 4]            cells of each box
    nodes_of_piece   as `pieces_of_nodes` returns it
    cuts             int64[nodes, 2]             last column of the west side, last row of the south side

    A side without an object or without a box, or where a node has no such side, has similarity 1.
    """
    object_start, objects = objects_by_term
    piece_start, pieces = pieces_by_term
    column, row, node_of = cells
    node_start, node_list = nodes_of_piece
    size = SIDES * len(cuts)
    of_objects, of_pieces = np.zeros(size), np.zeros(size)
    touched = np.empty(size, np.int64)
    stamp = np.full(size, -1, np.int64)
    sums = np.zeros((size, 3))
    for term in range(len(object_start) - 1):
        count = 0
        for i in range(object_start[term], object_start[term + 1]):
            o = objects[i]
            node = np.int64(node_of[o])
            if node < len(cuts):
                first = SIDES * node + (1 if column[o] > cuts[node, 0] else 0)
                count = _add(first, term, of_objects, stamp, touched, count)
                second = SIDES * node + (3 if row[o] > cuts[node, 1] else 2)
                count = _add(second, term, of_objects, stamp, touched, count)
        for i in range(piece_start[term], piece_start[term + 1]):
            p = pieces[i]
            for n in range(node_start[p], node_start[p + 1]):
                node = np.int64(node_list[n])
                if ranges[p, 0] <= cuts[node, 0]:
                    count = _add(SIDES * node, term, of_pieces, stamp, touched, count)
                if ranges[p, 2] > cuts[node, 0]:
                    count = _add(SIDES * node + 1, term, of_pieces, stamp, touched, count)
                if ranges[p, 1] <= cuts[node, 1]:
                    count = _add(SIDES * node + 2, term, of_pieces, stamp, touched, count)
                if ranges[p, 3] > cuts[node, 1]:
                    count = _add(SIDES * node + 3, term, of_pieces, stamp, touched, count)
        for i in range(count):
            side = touched[i]
            o, p = of_objects[side], of_pieces[side]
            sums[side, 0] += o * p
            sums[side, 1] += o * o
            sums[side, 2] += p * p
            of_objects[side] = of_pieces[side] = 0.0
    return _cosines(sums).reshape(len(cuts), SIDES)


@kernel
def _add(side: int, term: int, counts: np.ndarray, stamp: np.ndarray, touched: np.ndarray, count: int) -> int:
    if stamp[side] != term:
        stamp[side] = term
        touched[count] = side
        count += 1
    counts[side] += 1.0
    return count


@kernel
def _cosines(sums: np.ndarray) -> np.ndarray:
    cosines = np.ones(len(sums))
    for i in range(len(sums)):
        if sums[i, 1] > 0.0 and sums[i, 2] > 0.0:
            cosines[i] = sums[i, 0] / np.sqrt(sums[i, 1] * sums[i, 2])
    return cosines
