"""Cut the blocks of a grid or the leaves of a tree, in their order, into a run for each worker: least greatest load.

The planners `grid` and `r_tree` use it, with their blocks or leaves in the order of a Hilbert curve (the walk).

Loads are those of Definition 1. The objects of a run, and their posting reads, are sums over its blocks. A subscription
counts once in a run: at the first block of the run if its box touches that block, else at the block where the walk
first enters the box within the run. So a run from s has

    touching[s] + the number of entries (at p in the run after s, previous < s)

subscriptions. An entry is a position p of the walk in the box with p-1 outside it; `previous` is the last position
before p in the box (-1: none).
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.planning.assign_nodes import Rates, load_of
from pststream.kernels.routing.pyramid import Pyramid, find_distinct_codes, make_search
from pststream.kernels.sort_and_search import with_room


class Walk(NamedTuple):
    """The blocks in the order of the walk.

    objects         float64[n]    objects of each block
    read_seconds    float64[n]    seconds to read their postings
    touching        int64[n]      boxes that touch each block
    entry_start     int64[n+1]    slice of `entry_previous` of each position
    entry_previous  int32[k]      ascending inside a position
    """

    objects: np.ndarray
    read_seconds: np.ndarray
    touching: np.ndarray
    entry_start: np.ndarray
    entry_previous: np.ndarray
    rates: Rates


@kernel
def find_block_entries(
    ranges: np.ndarray, position: np.ndarray, column: np.ndarray, row: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find the positions at which a walk through a grid of blocks enters each box.

    ranges       int32[boxes, 4]      first column, first row, last column, last row, in blocks
    position     int32[rows, columns] position of each block on the walk
    column, row  int32[n]             block at each position
    Returns entry int32[k], previous int32[k], in no useful order.
    """
    entry = np.empty(2 * len(ranges) + 2 * len(column), np.int32)
    previous = np.empty(2 * len(ranges) + 2 * len(column), np.int32)
    exits = np.empty(len(column), np.int32)
    size = 0
    for box in range(len(ranges)):
        x0, y0, x1, y1 = ranges[box]
        # Make room for the entries of one more box.
        entry, previous = with_room(entry, size + len(column)), with_room(previous, size + len(column))
        first = size
        left = 0
        # The walk enters and leaves a box at its border only, so the inner blocks are skipped.
        for y in range(y0, y1 + 1):
            step = 1 if y == y0 or y == y1 else max(x1 - x0, 1)
            for x in range(x0, x1 + 1, step):
                p = position[y, x]
                if p == 0 or not _holds(ranges[box], column[p - 1], row[p - 1]):
                    entry[size] = p
                    size += 1
                if p == len(column) - 1 or not _holds(ranges[box], column[p + 1], row[p + 1]):
                    exits[left] = p
                    left += 1
        if size > first:
            _order_entries(entry[first:size], previous[first:size], exits[:left])
    return entry[:size].copy(), previous[:size].copy()


@kernel
def _order_entries(entry: np.ndarray, previous: np.ndarray, exits: np.ndarray) -> None:
    """Order the entries of a box along the walk, where each exit precedes the next entry."""
    if len(exits) > 1:
        entry.sort()
        exits.sort()
    previous[0] = -1
    previous[1:] = exits[: len(exits) - 1]


@kernel
def _holds(box: np.ndarray, x: int, y: int) -> bool:
    """Return whether a block lies in a box of blocks."""
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


@kernel
def find_leaf_entries(ranges: np.ndarray, positions: Pyramid) -> tuple[np.ndarray, np.ndarray]:
    """Find the positions at which a walk through leaves of any shape enters each box, as `find_block_entries` does.

    ranges     int32[boxes, 4]   first column, first row, last column, last row, in raster cells
    positions  pyramid over the position on the walk of the leaf of each raster cell
    """
    entry = np.empty(len(ranges) + positions.kinds, np.int32)
    previous = np.empty(len(ranges) + positions.kinds, np.int32)
    exits = np.empty(positions.kinds, np.int32)
    search = make_search(positions)
    size = 0
    for box in range(len(ranges)):
        # Make room for the entries of one more box.
        entry, previous = with_room(entry, size + positions.kinds), with_room(previous, size + positions.kinds)
        first = size
        left = 0
        # The walk enters the box at a leaf whose predecessor is outside, and leaves it before a successor outside.
        for i in range(find_distinct_codes(ranges[box], positions, search, box)):
            p = search.codes[i]
            if p == 0 or search.last_mark[p - 1] != box:
                entry[size] = p
                size += 1
            if p == positions.kinds - 1 or search.last_mark[p + 1] != box:
                exits[left] = p
                left += 1
        _order_entries(entry[first:size], previous[first:size], exits[:left])
    return entry[:size].copy(), previous[:size].copy()


@kernel
def cut_walk(walk: Walk, runs: int) -> np.ndarray:
    """Return the ends of contiguous runs whose greatest load is minimal: int64[runs+1], ascending from 0.

    Runs may be empty. The load of a run grows with its length, so bisection finds the least bound under which filling
    run after run needs at most `runs` of them. A run also takes a single block whose load is above the bound, as no cut
    can divide it. So the bound falls below such blocks, and the other runs are as even as they would be without them.
    Filling may leave runs unused and the last one short: unused runs split the most loaded ones, then each run is
    levelled with its neighbours. Neither raises the greatest load.
    """
    # Find the least bound by bisection.
    low, high = 0.0, compute_run_load(walk, 0, len(walk.objects))
    for _ in range(64):
        middle = (low + high) / 2.0
        if middle <= low or middle >= high:
            break
        if _fill(walk, runs, middle)[runs] == len(walk.objects):
            high = middle
        else:
            low = middle
    ends = _fill(walk, runs, high)
    # Use the remaining runs, then level neighbours until no end moves.
    _split(walk, ends)
    for _ in range(64):
        if not _level(walk, ends):
            break
    return ends


@kernel
def compute_run_load(walk: Walk, start: int, stop: int) -> float:
    """Return the load of the blocks at positions start..stop-1, in seconds."""
    objects, boxes, reads = 0.0, 0.0, 0.0
    for p in range(start, stop):
        objects += walk.objects[p]
        boxes += _new_boxes(walk, start, p)
        reads += walk.read_seconds[p]
    return load_of(objects, boxes, reads, walk.rates)


@kernel
def _new_boxes(walk: Walk, start: int, p: int) -> int:
    """Count the boxes that a run from `start` touches first at position p."""
    if p == start:
        return walk.touching[p]
    first, last = walk.entry_start[p], walk.entry_start[p + 1]
    return int(np.searchsorted(walk.entry_previous[first:last], start))


@kernel
def _fill(walk: Walk, runs: int, bound: float) -> np.ndarray:
    """Return the ends of runs filled in turn up to the bound, each with at least one loaded block.

    The last end is before the end of the walk if the runs do not suffice.
    """
    ends = np.empty(runs + 1, np.int64)
    ends[0] = 0
    p = 0
    for run in range(runs):
        start = p
        objects, boxes, reads, before = 0.0, 0.0, 0.0, 0.0
        while p < len(walk.objects):
            objects += walk.objects[p]
            boxes += _new_boxes(walk, start, p)
            reads += walk.read_seconds[p]
            load = load_of(objects, boxes, reads, walk.rates)
            if before > 0.0 and load > bound:
                break
            before = load
            p += 1
        ends[run + 1] = p
    return ends


@kernel
def _split(walk: Walk, ends: np.ndarray) -> None:
    """Use the empty runs at the end of the walk to split the most loaded runs of more than one block."""
    runs = len(ends) - 1
    used = np.searchsorted(ends, len(walk.objects))
    loads = np.zeros(runs)
    for run in range(used):
        loads[run] = compute_run_load(walk, ends[run], ends[run + 1])
    while used < runs:
        run = int(np.argmax(loads))
        if loads[run] <= 0.0:
            break
        # Split where the halves are most even; a run that does not gain by it is not tried again.
        end = _middle(walk, ends[run], ends[run + 1])
        low, high = compute_run_load(walk, ends[run], end), compute_run_load(walk, end, ends[run + 1])
        if max(low, high) >= loads[run]:
            loads[run] = 0.0
            continue
        # Shift the later runs by one.
        ends[run + 2 : used + 2] = ends[run + 1 : used + 1].copy()
        loads[run + 2 : used + 1] = loads[run + 1 : used].copy()
        ends[run + 1], loads[run], loads[run + 1] = end, low, high
        used += 1


@kernel
def _level(walk: Walk, ends: np.ndarray) -> bool:
    """Move each inner end to where the more loaded of its two runs is least loaded; return whether one moved."""
    moved = False
    for i in range(len(ends) - 2, 0, -1):
        start, now, stop = ends[i - 1], ends[i], ends[i + 1]
        end = _middle(walk, start, stop)
        if _worse(walk, start, end, stop) < _worse(walk, start, now, stop):
            ends[i] = end
            moved = True
    return moved


@kernel
def _middle(walk: Walk, start: int, stop: int) -> int:
    """Return the end of the first of two runs at which the more loaded one is least loaded."""
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if compute_run_load(walk, start, middle) < compute_run_load(walk, middle, stop):
            low = middle + 1
        else:
            high = middle
    if low > start and _worse(walk, start, low - 1, stop) <= _worse(walk, start, low, stop):
        return low - 1
    return low


@kernel
def _worse(walk: Walk, start: int, end: int, stop: int) -> float:
    """Return the greater load of two neighbouring runs."""
    return max(compute_run_load(walk, start, end), compute_run_load(walk, end, stop))
