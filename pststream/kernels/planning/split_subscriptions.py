"""Split subscriptions by place and cost (DkM-SKS), cost new ones, and estimate their ranges and nearest areas."""

import heapq
from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.sort_and_search import find


class TermCounts(NamedTuple):
    """Sampled objects by term and raster cell (`plans/planner_sample.py`).

    columns, rows: of the raster; borders int64[t+1]: slice of the entries of each term; cells int64[n], ascending
    inside a term, and objects int64[n] of each entry
    """

    columns: int
    rows: int
    borders: np.ndarray
    cells: np.ndarray
    objects: np.ndarray


@kernel
def count_objects_with(word, area, counts):
    """Return the number of sampled objects with a word in an area (int32[4]): P(R, word) of Equation 4 as a count."""
    columns, _, borders, cells, objects = counts
    first, last = area[1] * columns + area[0], area[3] * columns + area[2]
    end = borders[word + 1]
    low, total = find(cells, borders[word], end, first), 0
    while low < end and cells[low] <= last:
        column = cells[low] % columns
        if area[0] <= column <= area[2]:
            total += objects[low]
        low += 1
    return total


QUARTERS = 4


class Subsets(NamedTuple):
    """The subscriptions in the order of assignment: the costliest subset first, and inside it the costliest first.

    order int64[n]; costs float64[n]: C(s) of each, in this order; areas int32[p, 4]: rectangle around each subset
    """

    order: np.ndarray
    costs: np.ndarray
    areas: np.ndarray


class _Work(NamedTuple):
    """What is known of the subscriptions, and room for results.

    ranges int32[n, 4], offsets int64[n+1], words int64[m]: as `split_subscriptions` takes them
    costs float64[n]: C(s) in the subset that was looked at last
    seen int64[t], counted int64[t]: the mark of the last subset with a word, and the objects with it there
    """

    ranges: np.ndarray
    offsets: np.ndarray
    words: np.ndarray
    counts: TermCounts
    costs: np.ndarray
    seen: np.ndarray
    counted: np.ndarray
    mark: np.ndarray


@kernel
def _area_around(members, ranges):
    """Return the range of cells around all members: int32[4]."""
    area = ranges[members[0]].copy()
    for member in members:
        for side in range(2):
            area[side] = min(area[side], ranges[member, side])
            area[side + 2] = max(area[side + 2], ranges[member, side + 2])
    return area


@kernel
def _subset_cost(members, work):
    """Write C(s) of each member (Equation 5), at least 1, and return their sum (Equation 6)."""
    if not len(members):
        return 0.0
    offsets, words, costs, seen, counted = work.offsets, work.words, work.costs, work.seen, work.counted
    area = _area_around(members, work.ranges)
    work.mark[0] += 1
    mark, total = work.mark[0], 0.0
    for member in members:
        cost = 0
        for t in range(offsets[member], offsets[member + 1]):
            word = words[t]
            if word < 0:
                continue
            if seen[word] != mark:
                seen[word] = mark
                counted[word] = count_objects_with(word, area, work.counts)
            cost += counted[word]
        costs[member] = max(cost, 1)
        total += costs[member]
    return total


@kernel
def _label_by_space(members, ranges, middle_x, middle_y, label):
    """Write the quarter of the centre of each member to `label`."""
    for k in range(len(members)):
        member = members[k]
        east = ranges[member, 0] + ranges[member, 2] + 1 >= middle_x
        north = ranges[member, 1] + ranges[member, 3] + 1 >= middle_y
        label[k] = 2 * north + east


@kernel
def _label_by_cost(members, costs, label):
    """Write to `label` the subset of each of the members: of four the one with the least cost, the costliest first."""
    own = np.empty(len(members), np.float64)
    for k in range(len(members)):
        own[k] = -costs[members[k]]
    sums = np.zeros(QUARTERS)
    for k in np.argsort(own, kind="mergesort"):
        least = np.argmin(sums)
        label[k] = least
        sums[least] -= own[k]


@kernel
def _arrange(members, label, arranged, borders):
    """Write the members by label to `arranged`, in their order inside a label, and the slice of each to `borders`."""
    size = 0
    for quarter in range(QUARTERS):
        borders[quarter] = size
        for k in range(len(members)):
            if label[k] == quarter:
                arranged[size] = members[k]
                size += 1
    borders[QUARTERS] = size


@kernel
def _costs_of_quarters(arranged, borders, work, quarter_costs):
    """Write the cost of each of four subsets, and return their sum."""
    total = 0.0
    for quarter in range(QUARTERS):
        quarter_costs[quarter] = _subset_cost(arranged[borders[quarter] : borders[quarter + 1]], work)
        total += quarter_costs[quarter]
    return total


@kernel
def _have_one_centre(members, ranges):
    first = members[0]
    for member in members:
        for side in range(2):
            if ranges[member, side] + ranges[member, side + 2] != ranges[first, side] + ranges[first, side + 2]:
                return False
    return True


@kernel
def _split(members, low, high, tested, work, label, arranged, borders, quarter_costs):
    """Arrange the members in four subsets; return whether these are quarters of the space [low, high).

    A large subset is split by space. Of a small one both splits are tested, and space is taken if it costs less.
    """
    ranges = work.ranges
    at_one_point = _have_one_centre(members, ranges)
    middle_x, middle_y = (low[0] + high[0]) / 2, (low[1] + high[1]) / 2
    by_space = np.inf
    if not at_one_point:
        _label_by_space(members, ranges, middle_x, middle_y, label)
        _arrange(members, label, arranged, borders)
        by_space = _costs_of_quarters(arranged, borders, work, quarter_costs)
        if len(members) > tested:
            return True
    _subset_cost(members, work)
    _label_by_cost(members, work.costs, label)
    _arrange(members, label, arranged, borders)
    if by_space < _costs_of_quarters(arranged, borders, work, quarter_costs):
        _label_by_space(members, ranges, middle_x, middle_y, label)
        _arrange(members, label, arranged, borders)
        _costs_of_quarters(arranged, borders, work, quarter_costs)
        return True
    return False


@kernel
def split_subscriptions(ranges, offsets, words, counts, wanted, tested):
    """Split subscriptions until there are `wanted` subsets, or only single ones; return `Subsets`.

    ranges          int32[n, 4]         raster cells of each subscription; n > 0
    offsets, words  int64[n+1], int64[m] numbers of its words in `counts`; -1: no sampled object has the word
    tested          greatest subset of which both splits are tested

    The costliest subset is split first, of equal ones the one with the least number; the first quarter keeps the number
    of its subset. Source: DkM-SKS, Algorithms 2 and 3.
    """
    n = len(ranges)
    work = _Work(
        ranges, offsets, words, counts, np.empty(n), np.zeros(len(counts.borders), np.int64),
        np.zeros(len(counts.borders), np.int64), np.zeros(1, np.int64),
    )  # fmt: skip
    members, label, arranged = np.arange(n), np.empty(n, np.int64), np.empty(n, np.int64)
    borders, quarter_costs = np.empty(QUARTERS + 1, np.int64), np.empty(QUARTERS)
    room = wanted + QUARTERS
    slices, low, high = np.zeros((room, 2), np.int64), np.zeros((room, 2)), np.zeros((room, 2))
    slices[0, 1], high[0, 0], high[0, 1] = n, 2 * counts.columns, 2 * counts.rows
    costs = np.zeros(room)
    costs[0], made = _subset_cost(members, work), 1
    waiting = [(-costs[0], 0)]
    while len(waiting) and made < wanted:
        _, number = heapq.heappop(waiting)
        start, stop = slices[number, 0], slices[number, 1]
        if stop - start == 1:
            continue
        own, own_low, own_high = members[start:stop], low[number].copy(), high[number].copy()
        is_space = _split(own, own_low, own_high, tested, work, label, arranged, borders, quarter_costs)
        own[:] = arranged[: stop - start]
        is_first = True
        for quarter in range(QUARTERS):
            if borders[quarter] == borders[quarter + 1]:
                continue
            child = number if is_first else made
            made += not is_first
            is_first = False
            slices[child, 0], slices[child, 1] = start + borders[quarter], start + borders[quarter + 1]
            low[child], high[child], costs[child] = own_low, own_high, quarter_costs[quarter]
            if is_space:
                for axis in range(2):
                    middle = (own_low[axis] + own_high[axis]) / 2
                    if (quarter >> axis) & 1:
                        low[child, axis] = middle
                    else:
                        high[child, axis] = middle
            heapq.heappush(waiting, (-costs[child], child))
    return _in_order(members, slices[:made], costs[:made], work)


@kernel
def _in_order(members, slices, costs, work):
    """Return the subsets by cost, and the members of each by cost; of equal ones the first."""
    order, own_costs = np.empty(len(members), np.int64), np.empty(len(members))
    areas = np.empty((len(slices), 4), np.int32)
    size = 0
    ranked = np.argsort(-costs, kind="mergesort")
    for place in range(len(ranked)):
        own = np.sort(members[slices[ranked[place], 0] : slices[ranked[place], 1]])
        _subset_cost(own, work)
        areas[place] = _area_around(own, work.ranges)
        for k in np.argsort(-work.costs[own], kind="mergesort"):
            order[size], own_costs[size] = own[k], work.costs[own[k]]
            size += 1
    return Subsets(order, own_costs, areas)


@kernel
def cost_in_areas(areas, offsets, words, counts):
    """Return C(s) of new subscriptions, each in its own area (int32[n, 4]): float64[n] (Equation 7).

    offsets, words: as `split_subscriptions` takes them
    """
    costs = np.zeros(len(areas))
    for s in range(len(areas)):
        for t in range(offsets[s], offsets[s + 1]):
            if words[t] >= 0:
                costs[s] += count_objects_with(words[t], areas[s], counts)
    return costs


# Estimate by sampled objects where the nearest objects of a subscription are.


@kernel
def _square_around(column, row, reach, counts, area):
    """Write the cells up to `reach` columns and rows from a cell to `area`, cut at the raster."""
    area[0], area[1] = max(column - reach, 0), max(row - reach, 0)
    area[2], area[3] = min(column + reach, counts.columns - 1), min(row + reach, counts.rows - 1)


@kernel
def _count_words(words, area, counts):
    total = 0
    for word in words:
        if word >= 0:
            total += count_objects_with(word, area, counts)
    return total


@kernel
def find_ranges_of_nearest(columns, rows, offsets, words, wanted, counts):
    """Return the least square of cells around each point in which its words have enough sampled objects: int32[n, 4].

    columns, rows   int64[n]             raster cell of each point
    offsets, words  int64[n+1], int64[m] numbers of the words of each in `counts`; -1: no sampled object has the word
    wanted          float64[n]           sampled objects that are enough, an object with two of the words counted twice

    It is the whole raster if that has too few. The reach is found by bisection.
    """
    ranges = np.empty((len(columns), 4), np.int32)
    for s in range(len(columns)):
        own = words[offsets[s] : offsets[s + 1]]
        low, high = 0, max(counts.columns, counts.rows)
        while low < high:
            middle = (low + high) >> 1
            _square_around(columns[s], rows[s], middle, counts, ranges[s])
            if _count_words(own, ranges[s], counts) >= wanted[s]:
                high = middle
            else:
                low = middle + 1
        _square_around(columns[s], rows[s], low, counts, ranges[s])
    return ranges


# Find the area that shares most cells with a range, or else the nearest, in an index over areas (an R-tree).


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
