"""Cutting a walk through blocks into contiguous runs, one a worker, by the load of Definition 1.

The objects of a run, and what they read, are a sum. Its subscriptions are not: one that touches many blocks counts
once. It is counted at the first block of the run that it touches; that is the run's first block, or a block where the
walk enters its box after having left it (or never having been in it) before the run began. So a run from s has

    touching[s] + the number of entries (at p in the run after s, previous < s)

subscriptions, where an entry is a place p of the walk in the box with p-1 outside it, and `previous` the last place
before p in the box (-1: none).
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.routing.pyramid import Pyramid, distinct_codes, new_search


class Walk(NamedTuple):
    """The blocks in the order of the walk.

    objects         float64[n]    objects of each block
    read_seconds    float64[n]    of the postings that they read
    touching        int64[n]      boxes that touch each block
    entry_start     int64[n+1]    slice of `entry_previous` of each place
    entry_previous  int32[k]      ascending inside a place
    pair, object, subscription    float64 load of a (object, subscription), an object, a subscription
    """

    objects: np.ndarray
    read_seconds: np.ndarray
    touching: np.ndarray
    entry_start: np.ndarray
    entry_previous: np.ndarray
    pair: float
    object: float
    subscription: float


@kernel
def curve_entries(
    ranges: np.ndarray, place: np.ndarray, column: np.ndarray, row: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where the walk enters each box.

    ranges       int32[boxes, 4]      first column, first row, last column, last row, in blocks
    place        int32[rows, columns] place of each block on the walk
    column, row  int32[n]             block at each place
    Returns entry int32[k], previous int32[k], in no useful order.
    """
    entry = np.empty(2 * len(ranges) + 2 * len(column), np.int32)
    previous = np.empty(2 * len(ranges) + 2 * len(column), np.int32)
    exits = np.empty(len(column), np.int32)
    size = 0
    for box in range(len(ranges)):
        x0, y0, x1, y1 = ranges[box]
        if size + len(column) > len(entry):
            entry = np.concatenate((entry, entry))
            previous = np.concatenate((previous, previous))
        first = size
        left = 0
        for y in range(y0, y1 + 1):
            step = 1 if y == y0 or y == y1 else max(x1 - x0, 1)
            for x in range(x0, x1 + 1, step):
                p = place[y, x]
                if p == 0 or not _holds(ranges[box], column[p - 1], row[p - 1]):
                    entry[size] = p
                    size += 1
                if p == len(column) - 1 or not _holds(ranges[box], column[p + 1], row[p + 1]):
                    exits[left] = p
                    left += 1
        if size == first:
            continue
        if left > 1:
            entry[first:size].sort()
            exits[:left].sort()
        previous[first] = -1
        previous[first + 1 : size] = exits[: left - 1]
    return entry[:size].copy(), previous[:size].copy()


@kernel
def _holds(box: np.ndarray, x: int, y: int) -> bool:
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


@kernel
def leaf_entries(ranges: np.ndarray, places: Pyramid) -> tuple[np.ndarray, np.ndarray]:
    """As `curve_entries`, for a walk through leaves of any shape.

    ranges  int32[boxes, 4]   first column, first row, last column, last row, in cells
    places  pyramid over the place on the walk of each cell's leaf
    """
    entry = np.empty(len(ranges) + places.kinds, np.int32)
    previous = np.empty(len(ranges) + places.kinds, np.int32)
    exits = np.empty(places.kinds, np.int32)
    search = new_search(places)
    size = 0
    for box in range(len(ranges)):
        if size + places.kinds > len(entry):
            entry = np.concatenate((entry, entry))
            previous = np.concatenate((previous, previous))
        first = size
        left = 0
        for i in range(distinct_codes(ranges[box], places, search, box)):
            p = search.found[i]
            if p == 0 or search.stamp[p - 1] != box:
                entry[size] = p
                size += 1
            if p == places.kinds - 1 or search.stamp[p + 1] != box:
                exits[left] = p
                left += 1
        if left > 1:
            entry[first:size].sort()
            exits[:left].sort()
        previous[first] = -1
        previous[first + 1 : size] = exits[: left - 1]
    return entry[:size].copy(), previous[:size].copy()


@kernel
def cut_walk(walk: Walk, runs: int) -> np.ndarray:
    """Ends of contiguous runs whose greatest load is minimal: int64[runs+1], ascending from 0; runs may be empty.

    The load of a run grows with it, so the least bound under which filling run after run needs at most `runs` of them
    is found by halving. A run takes a block that is above the bound alone, as nothing can be done about it; so the
    bound goes below such blocks and the other runs are as even as they would be without them. Filling may leave runs
    over, and the last one short: the ones left over split the most loaded, then each is levelled with its neighbours.
    Neither raises the greatest load.
    """
    low, high = 0.0, run_load(walk, 0, len(walk.objects))
    for _ in range(64):
        middle = (low + high) / 2.0
        if middle <= low or middle >= high:
            break
        if _fill(walk, runs, middle)[runs] == len(walk.objects):
            high = middle
        else:
            low = middle
    ends = _fill(walk, runs, high)
    _split(walk, ends)
    for _ in range(64):
        if not _level(walk, ends):
            break
    return ends


@kernel
def run_load(walk: Walk, start: int, stop: int) -> float:
    """Load of the blocks at places start..stop-1."""
    objects, boxes, reads = 0.0, 0.0, 0.0
    for p in range(start, stop):
        objects += walk.objects[p]
        boxes += _new_boxes(walk, start, p)
        reads += walk.read_seconds[p]
    return _load(walk, objects, boxes, reads)


@kernel
def _load(walk: Walk, objects: float, boxes: float, read_seconds: float) -> float:
    return walk.pair * objects * boxes + walk.object * objects + walk.subscription * boxes + read_seconds


@kernel
def _new_boxes(walk: Walk, start: int, p: int) -> int:
    """Boxes that a run from `start` touches first at place p."""
    if p == start:
        return walk.touching[p]
    first, last = walk.entry_start[p], walk.entry_start[p + 1]
    return int(np.searchsorted(walk.entry_previous[first:last], start))


@kernel
def _fill(walk: Walk, runs: int, bound: float) -> np.ndarray:
    """Ends of runs, each with one loaded block or as long as its load stays within the bound; they may fall short."""
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
            load = _load(walk, objects, boxes, reads)
            if before > 0.0 and load > bound:
                break
            before = load
            p += 1
        ends[run + 1] = p
    return ends


@kernel
def _split(walk: Walk, ends: np.ndarray) -> None:
    """Use empty runs at the end of the walk to split the most loaded ones that more than one block makes up."""
    runs = len(ends) - 1
    used = np.searchsorted(ends, len(walk.objects))
    loads = np.zeros(runs)
    for run in range(used):
        loads[run] = run_load(walk, ends[run], ends[run + 1])
    while used < runs:
        run = int(np.argmax(loads))
        if loads[run] <= 0.0:
            break
        end = _middle(walk, ends[run], ends[run + 1])
        low, high = run_load(walk, ends[run], end), run_load(walk, end, ends[run + 1])
        if max(low, high) >= loads[run]:
            loads[run] = 0.0
            continue
        ends[run + 2 : used + 2] = ends[run + 1 : used + 1].copy()
        loads[run + 2 : used + 1] = loads[run + 1 : used].copy()
        ends[run + 1], loads[run], loads[run + 1] = end, low, high
        used += 1


@kernel
def _level(walk: Walk, ends: np.ndarray) -> bool:
    """Move each inner end to where the more loaded of its two runs is least loaded; tells whether one moved."""
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
    """Where to end the first of two runs so that the more loaded one is least loaded."""
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if run_load(walk, start, middle) < run_load(walk, middle, stop):
            low = middle + 1
        else:
            high = middle
    if low > start and _worse(walk, start, low - 1, stop) <= _worse(walk, start, low, stop):
        return low - 1
    return low


@kernel
def _worse(walk: Walk, start: int, end: int, stop: int) -> float:
    return max(run_load(walk, start, end), run_load(walk, end, stop))
