"""Which codes occur in a rectangle of a raster: a pyramid of the raster, each level half as wide as the one below.

A node knows its code where all its cells have the same one, else the set of the codes below it. A rectangle asks few
nodes: it starts on the level where it touches at most 2 x 2 of them, takes a node of one code or a node inside it as
a whole, and descends only where a border between codes crosses its own edge. So a rectangle of a few cells is as cheap
as one of the whole raster.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel

MIXED = -1
BEYOND = 1 << 40
"""A rectangle that ends with the raster also holds the part of a node that juts out of it."""


class Pyramid(NamedTuple):
    """The nodes of all levels, row by row, the raster itself (level 0) first.

    level_start  int64[levels+1]   first node of each level
    width        int64[levels]     nodes in a row of each level
    code         int32[nodes]      code of all cells of the node, or MIXED
    set_offsets  int64[nodes+1]    slice of `set_codes` of each mixed node
    set_codes    int32[n]          distinct codes of its cells
    kinds        int64             codes lie in [0, kinds)
    distinct     int64             number of different codes in the raster
    """

    level_start: np.ndarray
    width: np.ndarray
    code: np.ndarray
    set_offsets: np.ndarray
    set_codes: np.ndarray
    kinds: int
    distinct: int


class Search(NamedTuple):
    """What a search needs to write on.

    stack   int64[n, 3]      nodes to look at: level, column, row
    stamp   int64[kinds]     the last mark under which a code was found
    found   int32[kinds]     codes found
    """

    stack: np.ndarray
    stamp: np.ndarray
    found: np.ndarray


@kernel
def build_pyramid(raster: np.ndarray, columns: int, rows: int, kinds: int) -> Pyramid:
    """The pyramid over int32[rows * columns] codes in [0, kinds)."""
    level_start, width = _levels(columns, rows)
    nodes = level_start[-1]
    code = np.empty(nodes, np.int32)
    code[: len(raster)] = raster
    set_offsets = np.zeros(nodes + 1, np.int64)
    set_codes = np.empty(1024, np.int32)
    stamp = np.full(kinds, -1, np.int64)
    size = 0
    for level in range(1, len(width)):
        below = level_start[level - 1]
        for node in range(level_start[level], level_start[level + 1]):
            y, x = divmod(node - level_start[level], width[level])
            first = size
            for child_y in range(2 * y, min(2 * y + 2, (level_start[level] - below) // width[level - 1])):
                for child_x in range(2 * x, min(2 * x + 2, width[level - 1])):
                    child = below + child_y * width[level - 1] + child_x
                    set_codes, size = _add(child, node, code, set_offsets, set_codes, size, stamp)
            if size - first == 1:
                code[node] = set_codes[first]
                size = first
            else:
                code[node] = MIXED
            set_offsets[node + 1] = size
    distinct = size - set_offsets[nodes - 1] if code[nodes - 1] == MIXED else 1
    return Pyramid(level_start, width, code, set_offsets, set_codes[:size].copy(), kinds, distinct)


@kernel
def _levels(columns: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    level_start = np.zeros(64, np.int64)
    width = np.zeros(64, np.int64)
    level = 0
    width[0] = columns
    level_start[1] = columns * rows
    while columns > 1 or rows > 1:
        columns, rows = (columns + 1) >> 1, (rows + 1) >> 1
        level += 1
        width[level] = columns
        level_start[level + 1] = level_start[level] + columns * rows
    return level_start[: level + 2].copy(), width[: level + 1].copy()


@kernel
def _add(
    child: int,
    mark: int,
    code: np.ndarray,
    set_offsets: np.ndarray,
    set_codes: np.ndarray,
    size: int,
    stamp: np.ndarray,
) -> tuple[np.ndarray, int]:
    """Append the codes of a child that its parent has not yet."""
    if size + len(stamp) > len(set_codes):
        longer = np.empty(2 * (size + len(stamp)), np.int32)
        longer[:size] = set_codes[:size]
        set_codes = longer
    if code[child] != MIXED:
        if stamp[code[child]] != mark:
            stamp[code[child]] = mark
            set_codes[size] = code[child]
            size += 1
        return set_codes, size
    for i in range(set_offsets[child], set_offsets[child + 1]):
        if stamp[set_codes[i]] != mark:
            stamp[set_codes[i]] = mark
            set_codes[size] = set_codes[i]
            size += 1
    return set_codes, size


@kernel
def new_search(pyramid: Pyramid) -> Search:
    """Scratch space for `distinct_codes`; marks start at 0."""
    return Search(
        np.empty((4 * len(pyramid.width) + 4, 3), np.int64),
        np.full(pyramid.kinds, -1, np.int64),
        np.empty(pyramid.kinds, np.int32),
    )


@kernel
def distinct_codes(box: np.ndarray, pyramid: Pyramid, search: Search, mark: int) -> int:
    """Write the distinct codes in a rectangle to `search.found`, in no order; returns their number.

    box   int32[4]   first column, first row, last column, last row; empty if a last is before its first
    mark  different for each call with the same `search`
    """
    x0, y0, x1, y1 = np.int64(box[0]), np.int64(box[1]), np.int64(box[2]), np.int64(box[3])
    level = 0
    while (1 << level) <= max(x1 - x0, y1 - y0):
        level += 1
    east = x1 if x1 < pyramid.width[0] - 1 else BEYOND
    north = y1 if (y1 + 1) * pyramid.width[0] < pyramid.level_start[1] else BEYOND
    stack, stamp, found = search
    depth = _push(level, x0 >> level, y0 >> level, x1 >> level, y1 >> level, stack, 0)
    count = 0
    while depth > 0 and count < pyramid.distinct:
        depth -= 1
        level, x, y = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        node = pyramid.level_start[level] + y * pyramid.width[level] + x
        code = pyramid.code[node]
        if code != MIXED:
            if stamp[code] != mark:
                stamp[code] = mark
                found[count] = code
                count += 1
            continue
        west, south = x << level, y << level
        if west >= x0 and south >= y0 and west + (1 << level) - 1 <= east and south + (1 << level) - 1 <= north:
            for i in range(pyramid.set_offsets[node], pyramid.set_offsets[node + 1]):
                code = pyramid.set_codes[i]
                if stamp[code] != mark:
                    stamp[code] = mark
                    found[count] = code
                    count += 1
            continue
        level -= 1
        left, right = max(x0 >> level, 2 * x), min(x1 >> level, 2 * x + 1)
        low, high = max(y0 >> level, 2 * y), min(y1 >> level, 2 * y + 1)
        depth = _push(level, left, low, right, high, stack, depth)
    return count


@kernel
def _push(level: int, x0: int, y0: int, x1: int, y1: int, stack: np.ndarray, depth: int) -> int:
    for y in range(y0, y1 + 1):
        for x in range(x0, x1 + 1):
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = level, x, y
            depth += 1
    return depth
