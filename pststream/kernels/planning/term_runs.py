"""Divide regions by text: cut terms into runs of even loads, share objects among children, compare sides of cuts.

Loads of runs (`planning/planners/grow_tree.py`) are those of Definition 1 for a worker that serves the terms of one
run. The worker has the objects with one of these terms and the subscriptions posted under one of them; each counts
once, no matter how many of the terms it has.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.planning.assign_nodes import Rates, load_of
from pststream.kernels.routing.pyramid import Pyramid, find_distinct_codes, make_search
from pststream.kernels.routing.tree_walk import add_gains, choose_child
from pststream.kernels.sort_and_search import with_room

CLOSE = 0.98
"""The search for a bound ends once it is known to within this factor."""

STEPS = 24
"""Maximum number of bounds that are tried: if each term may have a run of its own, every bound is feasible."""


@kernel
def find_objects_inside(
    x0: int, y0: int, x1: int, y1: int, columns: int, cell_start: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Return the rows of the objects with a term in a rectangle of raster cells: int32; objects are ordered by cell.

    cell_start  int64[cells+1]     slice of the objects of each raster cell
    start       int64[objects+1]   slice of the terms of each object
    """
    size = 0
    for y in range(y0, y1 + 1):
        size += cell_start[y * columns + x1 + 1] - cell_start[y * columns + x0]
    rows = np.empty(size, np.int32)
    size = 0
    for y in range(y0, y1 + 1):
        for row in range(cell_start[y * columns + x0], cell_start[y * columns + x1 + 1]):
            if start[row] < start[row + 1]:
                rows[size] = row
                size += 1
    return rows[:size].copy()


@kernel
def find_pieces_touching(x0: int, y0: int, x1: int, y1: int, ranges: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the rows of the boxes (int32[n, 4] raster cells) with a term that overlap a rectangle of cells: int32."""
    rows = np.empty(len(ranges), np.int32)
    size = 0
    for row in range(len(ranges)):
        inside = ranges[row, 0] <= x1 and ranges[row, 2] >= x0 and ranges[row, 1] <= y1 and ranges[row, 3] >= y0
        if inside and start[row] < start[row + 1]:
            rows[size] = row
            size += 1
    return rows[:size].copy()


@kernel
def count_terms(rows: np.ndarray, start: np.ndarray, terms: np.ndarray, kinds: int) -> np.ndarray:
    """Count the rows of a CSR that have each term: int64[kinds]."""
    counts = np.zeros(kinds, np.int64)
    for i in range(len(rows)):
        for t in range(start[rows[i]], start[rows[i] + 1]):
            counts[terms[t]] += 1
    return counts


@kernel
def sum_by_term(rows: np.ndarray, start: np.ndarray, terms: np.ndarray, values: np.ndarray, kinds: int) -> np.ndarray:
    """Sum `values`, parallel to `terms`, by term over some rows of a CSR: int64[kinds]."""
    sums = np.zeros(kinds, np.int64)
    for i in range(len(rows)):
        for t in range(start[rows[i]], start[rows[i] + 1]):
            sums[terms[t]] += values[t]
    return sums


@kernel
def group_rows_by_rank(
    rows: np.ndarray, start: np.ndarray, terms: np.ndarray, rank: np.ndarray, ranks: int
) -> tuple[np.ndarray, np.ndarray]:
    """Group rows by the rank of their terms: int64[ranks+1], int32[n] positions in `rows`, ascending in a rank.

    rank  int32[kinds]  rank of each term, -1: left out
    """
    member_start = np.zeros(ranks + 1, np.int64)
    for i in range(len(rows)):
        for t in range(start[rows[i]], start[rows[i] + 1]):
            if rank[terms[t]] >= 0:
                member_start[rank[terms[t]] + 1] += 1
    for r in range(ranks):
        member_start[r + 1] += member_start[r]
    free = member_start[:-1].copy()
    members = np.empty(member_start[-1], np.int32)
    for i in range(len(rows)):
        for t in range(start[rows[i]], start[rows[i] + 1]):
            r = rank[terms[t]]
            if r >= 0:
                members[free[r]] = i
                free[r] += 1
    return member_start, members


class RankedRows(NamedTuple):
    """The objects and pieces that have the terms of each rank, as `group_rows_by_rank` returns them, r ranks.

    object_start, objects  int64[r+1], int32[n]
    piece_start, pieces    int64[r+1], int32[m]
    read_seconds           float64[r]  seconds to read the postings under each rank
    """

    object_start: np.ndarray
    objects: np.ndarray
    piece_start: np.ndarray
    pieces: np.ndarray
    read_seconds: np.ndarray


@kernel
def cut_into_term_runs(
    max_runs: int, bound: float, ranks: RankedRows, rates: Rates
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return runs of ranks whose greatest load is about as small as this order allows; none if it exceeds `bound`.

    max_runs      runs at most
    bound         seconds; inf: no bound; runs of one term may exceed it
    Returns ends int64[runs+1] from 0, objects int64[runs], subscriptions int64[runs]; runs is 0 if the bound is too
    small. A term whose load alone exceeds the bound is a run of its own.
    """
    best = _fill(max_runs, bound, ranks, rates)
    low, high = 0.0, bound
    if bound == np.inf:
        if max_runs == 1 or len(ranks.object_start) < 3:
            return best
        # Without a bound, start from the load of all terms in one run.
        high = load_of(best[1][0], best[2][0], ranks.read_seconds.sum(), rates)
    # Narrow the bound down, by geometric means as it may span orders of magnitude.
    for _ in range(STEPS):
        if len(best[1]) == 0 or low >= high * CLOSE:
            break
        middle = np.sqrt(low * high) if low > 0.0 else high / 8.0
        tried = _fill(max_runs, middle, ranks, rates)
        if len(tried[1]) > 0:
            best, high = tried, middle
        else:
            low = middle
    return best


@kernel
def _fill(max_runs: int, bound: float, ranks: RankedRows, rates: Rates) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fill runs of ranks in turn up to the bound, each with at least one term; no runs if `max_runs` do not suffice."""
    object_start, objects, piece_start, pieces, read_seconds = ranks
    ends = np.zeros(max_runs + 1, np.int64)
    of_objects = np.zeros(max_runs, np.int64)
    of_pieces = np.zeros(max_runs, np.int64)
    read = 0.0
    object_seen = np.full(objects.max() + 1 if len(objects) else 0, -1, np.int32)
    piece_seen = np.full(pieces.max() + 1 if len(pieces) else 0, -1, np.int32)
    run = 0
    for rank in range(len(object_start) - 1):
        while True:
            # Count what the term adds to the run.
            more_objects = _unseen(objects, object_start[rank], object_start[rank + 1], object_seen, run)
            more_pieces = _unseen(pieces, piece_start[rank], piece_start[rank + 1], piece_seen, run)
            o, p = of_objects[run] + more_objects, of_pieces[run] + more_pieces
            seconds = read + read_seconds[rank]
            if rank == ends[run] or load_of(o, p, seconds, rates) <= bound:
                break
            # The bound is reached: begin another run with this term.
            run += 1
            read = 0.0
            if run == max_runs:
                return ends[:1], of_objects[:0], of_pieces[:0]
            ends[run] = rank
        of_objects[run], of_pieces[run], read = o, p, seconds
    ends[run + 1] = len(object_start) - 1
    return ends[: run + 2], of_objects[: run + 1], of_pieces[: run + 1]


@kernel
def _unseen(members: np.ndarray, first: int, end: int, seen: np.ndarray, run: int) -> int:
    """Count the members that the run does not have yet, and mark them as its own."""
    count = 0
    for i in range(first, end):
        if seen[members[i]] != run:
            seen[members[i]] = run
            count += 1
    return count


# Divide the objects of a node among four children by text, for SSTD's planners.


@kernel
def divide_by_text(
    objects: np.ndarray, offsets: np.ndarray, terms: np.ndarray, asked: np.ndarray, shares: np.ndarray, children: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give each object to the child whose workload it increases least, which then has its keywords.

    objects         int64[k]               the objects, in the order in which they are given
    offsets, terms  int64[n+1], int32[m]   terms of all objects, as places in `asked`
    asked           int64[t]               queries of the node that have each term
    shares          float64[l+1]           share of all queries with 0, 1, .. keywords
    Returns child int8[k], objects of each child int64[children], and uint8[t]: bit c is set if child c has the term.
    """
    child = np.empty(len(objects), np.int8)
    counts, known, gains = np.zeros(children, np.int64), np.zeros(children, np.int64), np.empty(children, np.int64)
    holders = np.zeros(len(asked), np.uint8)
    total = asked.sum()
    for k in range(len(objects)):
        first, last = offsets[objects[k]], offsets[objects[k] + 1]
        gains[:] = 0
        for t in range(first, last):
            add_gains(asked[terms[t]], holders[terms[t]], gains)
        chosen = choose_child(gains, known, counts, 0, total, shares)
        child[k] = chosen
        counts[chosen] += 1
        known[chosen] += gains[chosen]
        for t in range(first, last):
            holders[terms[t]] |= np.uint8(1 << chosen)
    return child, counts, holders


# Compare the terms of objects and subscriptions on each side of the cuts of many nodes.

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
        piece_nodes = with_room(piece_nodes, size + nodes.kinds)
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

    A side without objects or without boxes, and a side that a node does not have, has similarity 1. One pass by term
    serves all nodes of a level: it adds the counts of each term to the dot product and the squared norms of each side.
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
