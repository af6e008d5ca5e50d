"""Cut the ordered terms of a region into at most as many contiguous runs as workers so that the greatest load is least.

It also finds the objects and boxes of a region, and groups them by term (`planning/planners/text_split.py`).

Loads are those of Definition 1 for a worker that serves the terms of one run. The worker has the objects with one of
these terms and the subscriptions posted under one of them; each counts once, no matter how many of the terms it has.
"""

import numpy as np

from pststream.kernels.compile import kernel

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


@kernel
def cut_into_term_runs(
    max_runs: int,
    bound: float,
    object_start: np.ndarray,
    objects: np.ndarray,
    piece_start: np.ndarray,
    pieces: np.ndarray,
    read_seconds: np.ndarray,
    rates: tuple[float, float, float],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return runs of ranks whose greatest load is about as small as this order allows; none if it exceeds `bound`.

    max_runs      runs at most
    bound         seconds; inf: no bound; runs of one term may exceed it
    object_start, objects, piece_start, pieces   as `group_rows_by_rank` returns them
    read_seconds  float64[ranks]  seconds to read the postings under each rank
    rates         load of a pair, an object, a subscription
    Returns ends int64[runs+1] from 0, objects int64[runs], subscriptions int64[runs]; runs is 0 if the bound is too
    small. A term whose load alone exceeds the bound is a run of its own.
    """
    best = _fill(max_runs, bound, object_start, objects, piece_start, pieces, read_seconds, rates)
    low, high = 0.0, bound
    if bound == np.inf:
        if max_runs == 1 or len(object_start) < 3:
            return best
        # Without a bound, start from the load of all terms in one run.
        high = rates[0] * best[1][0] * best[2][0] + rates[1] * best[1][0] + rates[2] * best[2][0]
        high += read_seconds.sum()
    # Narrow the bound down, by geometric means as it may span orders of magnitude.
    for _ in range(STEPS):
        if len(best[1]) == 0 or low >= high * CLOSE:
            break
        middle = np.sqrt(low * high) if low > 0.0 else high / 8.0
        tried = _fill(max_runs, middle, object_start, objects, piece_start, pieces, read_seconds, rates)
        if len(tried[1]) > 0:
            best, high = tried, middle
        else:
            low = middle
    return best


@kernel
def _fill(
    max_runs: int,
    bound: float,
    object_start: np.ndarray,
    objects: np.ndarray,
    piece_start: np.ndarray,
    pieces: np.ndarray,
    read_seconds: np.ndarray,
    rates: tuple[float, float, float],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fill runs of ranks in turn up to the bound, each with at least one term; no runs if `max_runs` do not suffice."""
    pair, each_object, each_piece = rates
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
            if rank == ends[run] or pair * o * p + each_object * o + each_piece * p + seconds <= bound:
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
