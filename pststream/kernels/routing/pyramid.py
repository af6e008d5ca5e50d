"""Find the distinct codes (workers, leaves or blocks) in a rectangle of a raster, by a pyramid of coarser levels.

Each level is half as wide as the one below.

A node stores one code if all its raster cells have that code, else the set of their codes. A search visits
few nodes: it starts on the level where the rectangle touches at most 2 x 2 of them, takes a node with one code or a
node inside the rectangle as a whole, and descends only where a border between codes crosses an edge of the rectangle.
So a search in the whole raster costs no more than one in a few cells.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.sort_and_search import with_room

MIXED = -1
BEYOND = 1 << 40
"""End of a rectangle that reaches the end of the raster: it also holds nodes that extend beyond the raster."""


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
    """The work arrays of a search, allocated once and used again.

    stack      int64[n, 3]    nodes to visit: level, column, row
    last_mark  int64[kinds]   the last mark under which each code was found
    codes      int32[kinds]   the codes that the last search found
    """

    stack: np.ndarray
    last_mark: np.ndarray
    codes: np.ndarray


@kernel
def build_pyramid(raster: np.ndarray, columns: int, rows: int, kinds: int) -> Pyramid:
    """Build the pyramid over int32[rows * columns] codes in [0, kinds)."""
    level_start, width = _levels(columns, rows)
    nodes = level_start[-1]
    # Level 0 is the raster itself.
    code = np.empty(nodes, np.int32)
    code[: len(raster)] = raster
    set_offsets = np.zeros(nodes + 1, np.int64)
    set_codes = np.empty(1024, np.int32)
    last_mark = np.full(kinds, -1, np.int64)
    size = 0
    for level in range(1, len(width)):
        below, across = level_start[level - 1], width[level - 1]
        down = (level_start[level] - below) // across
        for node in range(level_start[level], level_start[level + 1]):
            y, x = divmod(node - level_start[level], width[level])
            # Most nodes have four children of one code.
            child = below + 2 * y * across + 2 * x
            if 2 * y + 1 < down and 2 * x + 1 < across and code[child] != MIXED:
                one = code[child]
                if code[child + 1] == one and code[child + across] == one and code[child + across + 1] == one:
                    code[node] = one
                    set_offsets[node + 1] = size
                    continue
            # Collect the distinct codes of the (at most four) children.
            first = size
            for child_y in range(2 * y, min(2 * y + 2, down)):
                for child_x in range(2 * x, min(2 * x + 2, across)):
                    child = below + child_y * across + child_x
                    set_codes, size = _add(child, node, code, set_offsets, set_codes, size, last_mark)
            # A node with one code needs no set.
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
    """Return the first node of each level, with the number of all nodes at the end, and the width of each level."""
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
    last_mark: np.ndarray,
) -> tuple[np.ndarray, int]:
    """Append the codes of a child that its parent does not have yet; return the codes and their number."""
    set_codes = with_room(set_codes, size + len(last_mark))
    if code[child] != MIXED:
        if last_mark[code[child]] != mark:
            last_mark[code[child]] = mark
            set_codes[size] = code[child]
            size += 1
        return set_codes, size
    for i in range(set_offsets[child], set_offsets[child + 1]):
        if last_mark[set_codes[i]] != mark:
            last_mark[set_codes[i]] = mark
            set_codes[size] = set_codes[i]
            size += 1
    return set_codes, size


@kernel
def make_search(pyramid: Pyramid) -> Search:
    """Allocate the work arrays of `find_distinct_codes`; marks start at 0."""
    return Search(
        np.empty((4 * len(pyramid.width) + 4, 3), np.int64),
        np.full(pyramid.kinds, -1, np.int64),
        np.empty(pyramid.kinds, np.int32),
    )


@kernel
def find_distinct_codes(box: np.ndarray, pyramid: Pyramid, search: Search, mark: int) -> int:
    """Write the distinct codes in a rectangle to `search.codes`, in no order; return their number.

    box   int32[4]   first column, first row, last column, last row; empty if a last is before its first
    mark  different for each call with the same `search`
    """
    # Start on the level where the rectangle touches at most 2 x 2 nodes.
    x0, y0, x1, y1 = np.int64(box[0]), np.int64(box[1]), np.int64(box[2]), np.int64(box[3])
    level = 0
    while (1 << level) <= max(x1 - x0, y1 - y0):
        level += 1
    east = x1 if x1 < pyramid.width[0] - 1 else BEYOND
    north = y1 if (y1 + 1) * pyramid.width[0] < pyramid.level_start[1] else BEYOND
    stack, last_mark, codes = search
    depth = _push(level, x0 >> level, y0 >> level, x1 >> level, y1 >> level, stack, 0)
    count = 0
    while depth > 0 and count < pyramid.distinct:
        depth -= 1
        level, x, y = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        # Take a node that has one code.
        node = pyramid.level_start[level] + y * pyramid.width[level] + x
        code = pyramid.code[node]
        if code != MIXED:
            if last_mark[code] != mark:
                last_mark[code] = mark
                codes[count] = code
                count += 1
            continue
        # Take all codes of a node that lies inside the rectangle.
        west, south = x << level, y << level
        if west >= x0 and south >= y0 and west + (1 << level) - 1 <= east and south + (1 << level) - 1 <= north:
            for i in range(pyramid.set_offsets[node], pyramid.set_offsets[node + 1]):
                code = pyramid.set_codes[i]
                if last_mark[code] != mark:
                    last_mark[code] = mark
                    codes[count] = code
                    count += 1
            continue
        # Visit the children of any other node that the rectangle touches.
        level -= 1
        left, right = max(x0 >> level, 2 * x), min(x1 >> level, 2 * x + 1)
        low, high = max(y0 >> level, 2 * y), min(y1 >> level, 2 * y + 1)
        depth = _push(level, left, low, right, high, stack, depth)
    return count


@kernel
def _push(level: int, x0: int, y0: int, x1: int, y1: int, stack: np.ndarray, depth: int) -> int:
    """Push the nodes of a rectangle of one level; return the new depth of the stack."""
    for y in range(y0, y1 + 1):
        for x in range(x0, x1 + 1):
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = level, x, y
            depth += 1
    return depth
