"""Find the area that shares most cells with a range, or else the nearest, in an index over areas (an R-tree)."""

import heapq
from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel


class AreaIndex(NamedTuple):
    """A packed R-tree: the areas in an order in which neighbours are near, then their parents, ... at last the root.

    boxes    int32[e, 4]  first column, first row, last column, last row around the areas below an entry
    extents  int32[e, 2]  greatest width and height of these areas, in cells
    first    int64[e]     least number of these areas
    below    int64[e, 2]  first child and the one after the last; equal for an area
    """

    boxes: np.ndarray
    extents: np.ndarray
    first: np.ndarray
    below: np.ndarray


@kernel
def _shared_length(low, high, other_low, other_high):
    """Return the cells that two ranges share on an axis; below 1: minus the cells between them."""
    return min(high, other_high) - max(low, other_low) + 1


@kernel
def _distance(own, box, extent):
    """Return minus the cells that a range can share with an area below an entry; else the least squared distance.

    It is exact for an area, and a lower bound for an entry with several.
    """
    x = np.int64(_shared_length(own[0], own[2], box[0], box[2]))
    y = np.int64(_shared_length(own[1], own[3], box[1], box[3]))
    if x > 0 and y > 0:
        return -min(x, np.int64(extent[0])) * min(y, np.int64(extent[1]))
    return min(x, 0) ** 2 + min(y, 0) ** 2


@kernel
def find_nearest_areas(ranges, index):
    """Return the distance (`_distance`) and the entry of the area nearest to each range; of equal ones the first.

    ranges  int32[n, 4]  raster cells
    index   AreaIndex with at least one area
    Returns int64[n], int64[n].

    Best first: an entry is taken after all that may be nearer. Source: Hjaltason and Samet, Distance browsing in
    spatial databases, 1999.
    """
    root = len(index.first) - 1
    distances, entries = np.empty(len(ranges), np.int64), np.empty(len(ranges), np.int64)
    for s in range(len(ranges)):
        own = ranges[s]
        waiting = [(_distance(own, index.boxes[root], index.extents[root]), index.first[root], root)]
        while True:
            distance, _, entry = heapq.heappop(waiting)
            start, stop = index.below[entry, 0], index.below[entry, 1]
            if start == stop:
                break
            for child in range(start, stop):
                nearest = _distance(own, index.boxes[child], index.extents[child])
                heapq.heappush(waiting, (nearest, index.first[child], child))
        distances[s], entries[s] = distance, entry
    return distances, entries
