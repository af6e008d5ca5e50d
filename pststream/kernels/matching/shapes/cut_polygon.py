"""Cut a polygon into disjoint boxes (index pieces), each with the edges that decide which of its points are inside.

`pststream/shapes/polygon.py` calls `cut_polygon` once for each subscription with a polygon, before it is indexed.

A long thin polygon fills little of its bounding box, so the box alone would produce many candidates that do not match.
The bounding box is halved repeatedly, first where exact tests cost most, and each half is tightened to the part of the
polygon in it. A halving is kept only if it lowers the modelled cost: the postings that objects of even density read, a
few more for each exact test and its edges, and a share of the whole cost for each piece.

Postings read and exact tests made for each object inside, without and with cutting:

    shape                                     reads           tests         pieces   edges of a test
    strip 50 times as long as wide, 0.2 deg   77 -> 29        26 -> 3.7     18       4 -> 2
    the same, 20 degrees                      506 -> 24       26 -> 4.2     8        4 -> 2
    ring of 80 vertices, 2 degrees            14 -> 14        3.6 -> 1.8    12       80 -> 10
    outline of 40 vertices, 2 degrees         9.3 -> 6.7      1.9 -> 1.0    17       40 -> 5
    outline of 900 vertices, 2 degrees        9.2 -> 7.4      1.7 -> 0.9    16       900 -> 79
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.index_cells import MAX_LEVEL, column_of, level_of_box, row_of
from pststream.kernels.matching.shapes.polygon import in_polygon

MOST_PIECES = 32

MARGIN = 1e-9
"""Degrees (0.1 mm) by which boxes are widened, far above the rounding of an intersection of two lines."""

TEST_READS, EDGE_READS = 3.0, 0.3
"""Cost of an exact test, and of each of its edges, in reads of a posting."""

PIECE_SHARE = 0.004
"""A piece must save this part of the cost of the whole polygon as one piece."""

_OUTSIDE, _INSIDE, _CROSSED = 0, 1, 2


@kernel
def cut_polygon(edges):
    """Return boxes float64[pieces, 4], offsets int64[pieces + 1] and numbers float64[]: the edges of each piece.

    `edges` float64[4 * edges]: x1, y1, x2, y2 of each, ring by ring, exteriors counter-clockwise and holes clockwise.
    `numbers` has the same form; `offsets` has the slice of each piece. The boxes are disjoint over floats: each point
    of the polygon is in exactly one. A piece without edges lies inside the polygon, so its box alone decides.
    """
    nodes = 2 * MOST_PIECES - 1
    boxes = np.empty((nodes, 4), np.float64)
    spans = np.zeros((nodes, 2), np.int64)
    children = np.full((nodes, 2), -1, np.int64)
    tests = np.zeros(nodes, np.float64)
    # The tree's root: the bounding box with all edges.
    x, y = edges[0::2], edges[1::2]
    boxes[0] = (x.min(), y.min(), x.max(), y.max())
    spans[0, 1] = len(edges)
    buffer = edges.copy()
    tests[0] = _test_cost(boxes[0], len(edges))
    used, leaves = 1, 1
    while leaves < MOST_PIECES and used + 2 <= nodes:
        # Halve the leaf whose exact tests cost most.
        node = np.argmax(tests)
        if tests[node] == 0.0:
            break
        tests[node] = 0.0
        axis = 0 if boxes[node, 2] - boxes[node, 0] >= boxes[node, 3] - boxes[node, 1] else 1
        middle = boxes[node, axis] + (boxes[node, axis + 2] - boxes[node, axis]) / 2.0
        if not boxes[node, axis] < middle < boxes[node, axis + 2]:
            continue
        own = buffer[spans[node, 0] : spans[node, 1]]
        leaves -= 1
        for half in range(2):
            box = boxes[node].copy()
            box[axis + 2 * (1 - half)] = middle if half else np.nextafter(middle, -np.inf)
            state = _tighten(own, box)
            if state == _OUTSIDE:
                continue
            kept = _matter_in(own, box) if state == _CROSSED else own[:0].copy()
            if state == _CROSSED and not len(kept):
                continue
            boxes[used], children[node, half] = box, used
            spans[used] = (len(buffer), len(buffer) + len(kept))
            buffer = np.concatenate((buffer, kept))
            tests[used] = _test_cost(box, len(kept))
            used += 1
            leaves += 1
    return _paying_pieces(buffer, boxes[:used], spans, children)


@kernel
def _paying_pieces(buffer, boxes, spans, children):
    """Prune the tree to the leaves of least total cost; return their boxes, offsets and edges."""
    # Costs from the leaves up: children come after their parents.
    nodes = len(boxes)
    costs = np.empty(nodes, np.float64)
    whole = _cost(boxes[0], spans[0, 1] - spans[0, 0])
    for node in range(nodes - 1, -1, -1):
        costs[node] = _cost(boxes[node], spans[node, 1] - spans[node, 0]) + PIECE_SHARE * whole
        parts, cut = 0.0, False
        for child in children[node]:
            if child >= 0:
                parts += costs[child]
                cut = True
        if cut and parts < costs[node]:
            costs[node] = parts
        else:
            children[node] = -1
    # Collect the remaining leaves, western and southern halves first.
    leaf_boxes = np.empty((nodes, 4), np.float64)
    offsets = np.zeros(nodes + 1, np.int64)
    stack = np.zeros(nodes + 1, np.int64)
    numbers = buffer[:0].copy()
    pieces, waiting = 0, 1
    while waiting:
        waiting -= 1
        node = stack[waiting]
        if children[node, 0] < 0 and children[node, 1] < 0:
            leaf_boxes[pieces] = boxes[node]
            numbers = np.concatenate((numbers, buffer[spans[node, 0] : spans[node, 1]]))
            pieces += 1
            offsets[pieces] = len(numbers)
        for child in (children[node, 1], children[node, 0]):
            if child >= 0:
                stack[waiting] = child
                waiting += 1
    return leaf_boxes[:pieces].copy(), offsets[: pieces + 1].copy(), numbers


@kernel
def _cost(box, numbers):
    """Return the cost of a piece in postings read, with exact tests, at one object per square degree."""
    level = level_of_box(box[0], box[1], box[2], box[3])
    shift, side = MAX_LEVEL - level, 360.0 / (1 << level)
    wide = (column_of(box[2]) >> shift) - (column_of(box[0]) >> shift) + 1
    high = (row_of(box[3]) >> shift) - (row_of(box[1]) >> shift) + 1
    return wide * high * side * side + _test_cost(box, numbers)


@kernel
def _test_cost(box, numbers):
    """Return the part of the cost that exact tests add; 0 for a piece without edges."""
    test = TEST_READS + EDGE_READS * (numbers // 4) if numbers else 0.0
    return test * (box[2] - box[0]) * (box[3] - box[1])


@kernel
def _tighten(edges, box):
    """Shrink the box to the polygon's part in it; return _OUTSIDE (no part), _INSIDE (the whole box) or _CROSSED."""
    west, south, east, north = box
    least_x, least_y, greatest_x, greatest_y = np.inf, np.inf, -np.inf, -np.inf
    # The parts of the edges in the box.
    for at in range(0, len(edges), 4):
        x1, y1 = edges[at], edges[at + 1]
        wide, high = edges[at + 2] - x1, edges[at + 3] - y1
        enter, leave = _clip_range(x1, wide, west - MARGIN, east + MARGIN, 0.0, 1.0)
        enter, leave = _clip_range(y1, high, south - MARGIN, north + MARGIN, enter, leave)
        if enter <= leave:
            for t in (enter, leave):
                px, py = x1 + t * wide, y1 + t * high
                least_x, greatest_x = min(least_x, px), max(greatest_x, px)
                least_y, greatest_y = min(least_y, py), max(greatest_y, py)
    if least_x == np.inf:
        return _INSIDE if in_polygon(edges, 0, len(edges), west, south) else _OUTSIDE
    # The corners of the box that are in the polygon.
    for px in (west, east):
        for py in (south, north):
            if in_polygon(edges, 0, len(edges), px, py):
                least_x, greatest_x = min(least_x, px), max(greatest_x, px)
                least_y, greatest_y = min(least_y, py), max(greatest_y, py)
    box[0], box[2] = max(west, least_x - MARGIN), min(east, greatest_x + MARGIN)
    box[1], box[3] = max(south, least_y - MARGIN), min(north, greatest_y + MARGIN)
    return _CROSSED if box[0] <= box[2] and box[1] <= box[3] else _OUTSIDE


@kernel
def _clip_range(start, length, low, high, enter, leave):
    """Return the part of [enter, leave] in which start + t * length is in [low, high]; empty if enter > leave."""
    if length == 0.0:
        return (enter, leave) if low <= start <= high else (1.0, 0.0)
    first, last = (low - start) / length, (high - start) / length
    return max(enter, min(first, last)), min(leave, max(first, last))


@kernel
def _matter_in(edges, box):
    """Return the edges that decide which points of the box are inside the polygon.

    They are the edges that may touch the box, and the edges east of it. Only the parity of crossings of a ray to the
    east matters, so each chain of edges east of the box is replaced by one edge from its first vertex to its last.
    """
    west, south, east, north = box
    kept = np.empty(len(edges), np.float64)
    size, chained = 0, False
    chain = np.empty(4, np.float64)
    for at in range(0, len(edges), 4):
        edge = edges[at : at + 4]
        if min(edge[0], edge[2]) > east:
            if chained and chain[2] == edge[0] and chain[3] == edge[1]:
                chain[2:] = edge[2:]
                continue
            size = _keep_crossed(kept, size, chain, chained, south, north)
            chain[:] = edge
            chained = True
        elif max(edge[0], edge[2]) >= west and min(edge[1], edge[3]) <= north and max(edge[1], edge[3]) >= south:
            kept[size : size + 4] = edge
            size += 4
    return kept[: _keep_crossed(kept, size, chain, chained, south, north)].copy()


@kernel
def _keep_crossed(kept, size, chain, chained, south, north):
    """Append the chain if a ray from a point of the box may cross it an odd number of times; return the new size."""
    if chained and min(chain[1], chain[3]) <= north and max(chain[1], chain[3]) > south:
        kept[size : size + 4] = chain
        return size + 4
    return size
