"""Cutting the terms of a region into runs, one a part, by the load of Definition 1.

A part serves the terms of a run of one fixed order. Its objects are those that have one of these terms, its
subscriptions those posted under one of them; who has several terms of a run counts once.
"""

import numpy as np

from pststream.kernels.compile import kernel

CLOSE = 0.98
"""A bound is found once it is known to within this factor."""

STEPS = 24
"""Bounds that are tried at most: there is no least one where each term may have a run of its own."""


@kernel
def objects_inside(
    x0: int, y0: int, x1: int, y1: int, columns: int, cell_start: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Rows of the objects in a rectangle of cells that have a term, int32; objects lie cell by cell.

    cell_start  int64[cells+1]     slice of the objects of each cell
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
def pieces_touching(x0: int, y0: int, x1: int, y1: int, ranges: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Rows of the boxes (int32[n, 4] cells) that overlap a rectangle of cells and have a term: int32."""
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
    """How many of the rows of a CSR have each term: int64[kinds]."""
    counts = np.zeros(kinds, np.int64)
    for i in range(len(rows)):
        for t in range(start[rows[i]], start[rows[i] + 1]):
            counts[terms[t]] += 1
    return counts


@kernel
def add_terms(rows: np.ndarray, start: np.ndarray, terms: np.ndarray, values: np.ndarray, kinds: int) -> np.ndarray:
    """The sum of `values`, parallel to `terms`, of each term over the rows of a CSR: int64[kinds]."""
    sums = np.zeros(kinds, np.int64)
    for i in range(len(rows)):
        for t in range(start[rows[i]], start[rows[i] + 1]):
            sums[terms[t]] += values[t]
    return sums


@kernel
def members_by_rank(
    rows: np.ndarray, start: np.ndarray, terms: np.ndarray, rank: np.ndarray, ranks: int
) -> tuple[np.ndarray, np.ndarray]:
    """The rows that have the term of each rank, as places in `rows`: int64[ranks+1], int32[n], ascending in a rank.

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


@kernel
def cut_terms(
    parts: int,
    bound: float,
    object_start: np.ndarray,
    objects: np.ndarray,
    piece_start: np.ndarray,
    pieces: np.ndarray,
    read_seconds: np.ndarray,
    rates: tuple[float, float, float],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs of ranks whose greatest load is about as small as it can be in this order; none if that is above `bound`.

    parts         runs at most
    bound         seconds; inf: whatever the loads; runs of one term are not held against it
    object_start, objects, piece_start, pieces   as `members_by_rank` returns them
    read_seconds  float64[ranks]  of the postings that objects read under each rank
    rates         load of a pair, an object, a subscription
    Returns ends int64[runs+1] from 0, objects int64[runs], subscriptions int64[runs]; runs is 0 where none will do.
    A term that is above every bound that the others keep is a run of its own.
    """
    best = _fill(parts, bound, object_start, objects, piece_start, pieces, read_seconds, rates)
    low, high = 0.0, bound
    if bound == np.inf:
        if parts == 1 or len(object_start) < 3:
            return best
        high = rates[0] * best[1][0] * best[2][0] + rates[1] * best[1][0] + rates[2] * best[2][0]
        high += read_seconds.sum()
    for _ in range(STEPS):
        if len(best[1]) == 0 or low >= high * CLOSE:
            break
        middle = np.sqrt(low * high) if low > 0.0 else high / 8.0
        found = _fill(parts, middle, object_start, objects, piece_start, pieces, read_seconds, rates)
        if len(found[1]) > 0:
            best, high = found, middle
        else:
            low = middle
    return best


@kernel
def _fill(
    parts: int,
    bound: float,
    object_start: np.ndarray,
    objects: np.ndarray,
    piece_start: np.ndarray,
    pieces: np.ndarray,
    read_seconds: np.ndarray,
    rates: tuple[float, float, float],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs as long as their load stays within the bound, or of one term; no runs if `parts` are not enough."""
    pair, each_object, each_piece = rates
    ends = np.zeros(parts + 1, np.int64)
    of_objects = np.zeros(parts, np.int64)
    of_pieces = np.zeros(parts, np.int64)
    read = 0.0
    object_seen = np.full(objects.max() + 1 if len(objects) else 0, -1, np.int32)
    piece_seen = np.full(pieces.max() + 1 if len(pieces) else 0, -1, np.int32)
    run = 0
    for rank in range(len(object_start) - 1):
        while True:
            more_objects = _unseen(objects, object_start[rank], object_start[rank + 1], object_seen, run)
            more_pieces = _unseen(pieces, piece_start[rank], piece_start[rank + 1], piece_seen, run)
            o, p = of_objects[run] + more_objects, of_pieces[run] + more_pieces
            seconds = read + read_seconds[rank]
            if rank == ends[run] or pair * o * p + each_object * o + each_piece * p + seconds <= bound:
                break
            run += 1
            read = 0.0
            if run == parts:
                return ends[:1], of_objects[:0], of_pieces[:0]
            ends[run] = rank
        of_objects[run], of_pieces[run], read = o, p, seconds
    ends[run + 1] = len(object_start) - 1
    return ends[: run + 2], of_objects[: run + 1], of_pieces[: run + 1]


@kernel
def _unseen(members: np.ndarray, first: int, end: int, seen: np.ndarray, run: int) -> int:
    """Members that the run has not yet; it has them now."""
    count = 0
    for i in range(first, end):
        if seen[members[i]] != run:
            seen[members[i]] = run
            count += 1
    return count
