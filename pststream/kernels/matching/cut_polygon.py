"""Cut polygons into disjoint boxes (index pieces) with the edges that decide which points are inside; measure rings.

`queries/shapes/polygon.py` calls `cut_polygons` once for many subscriptions with polygons, before they are indexed.

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
from pststream.kernels.matching.contains_point import in_polygon
from pststream.kernels.matching.index_cells import cells_of_box
from pststream.kernels.sort_and_search import with_room

MOST_PIECES = 32

MARGIN = 1e-9
"""Degrees (0.1 mm) by which boxes are widened, far above the rounding of an intersection of two lines."""

TEST_READS, EDGE_READS = 3.0, 0.3
"""Cost of an exact test, and of each of its edges, in reads of a posting."""

PIECE_SHARE = 0.004
"""A piece must save this part of the cost of the whole polygon as one piece."""

_OUTSIDE, _INSIDE, _CROSSED = 0, 1, 2


@kernel
def cut_polygons(regions, rings, points):
    """Cut many polygons, as `cut_polygon` cuts each: (counts, boxes, offsets, numbers).

    regions  int64[n+1]         slice of the rings of each polygon, exteriors counter-clockwise and holes clockwise
    rings    int64[rings+1]     slice of the points of each ring, the first again at the end
    points   float64[m,2]       longitude and latitude
    counts   int64[n]           number of pieces of each polygon
    boxes    float64[pieces,4]  west, south, east, north
    offsets  int64[pieces+1]    slice of `numbers` of each piece; none: the box alone decides
    numbers  float64[]          x1, y1, x2, y2 of each edge
    """
    counts = np.zeros(len(regions) - 1, np.int64)
    boxes, numbers = np.empty(16 * len(counts), np.float64), np.empty(8 * len(points), np.float64)
    offsets = np.zeros(4 * len(counts) + 1, np.int64)
    pieces, size = 0, 0
    for polygon in range(len(counts)):
        edges = _edges_of(rings[regions[polygon] : regions[polygon + 1] + 1], points)
        own_boxes, own_offsets, own_numbers = cut_polygon(edges)
        counts[polygon] = len(own_boxes)
        stop = pieces + len(own_boxes)
        boxes = with_room(boxes, 4 * stop)
        offsets, numbers = with_room(offsets, stop + 1), with_room(numbers, size + len(own_numbers))
        boxes[4 * pieces : 4 * stop] = own_boxes.ravel()
        offsets[pieces + 1 : stop + 1] = own_offsets[1:] + size
        numbers[size : size + len(own_numbers)] = own_numbers
        pieces, size = stop, size + len(own_numbers)
    return counts, boxes[: 4 * pieces].reshape(-1, 4), offsets[: pieces + 1], numbers[:size]


@kernel
def _edges_of(rings, points):
    """Return x1, y1, x2, y2 of each edge of some rings (slices of `points`), without edges of length 0: float64[]."""
    edges = np.empty(4 * (rings[-1] - rings[0]), np.float64)
    size = 0
    for ring in range(len(rings) - 1):
        for i in range(rings[ring], rings[ring + 1] - 1):
            if points[i, 0] != points[i + 1, 0] or points[i, 1] != points[i + 1, 1]:
                edges[size], edges[size + 1] = points[i, 0], points[i, 1]
                edges[size + 2], edges[size + 3] = points[i + 1, 0], points[i + 1, 1]
                size += 4
    return edges[:size]


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
    spans[0, 1] = size = len(edges)
    buffer = np.empty(4 * size, np.float64)
    buffer[:size] = edges
    tests[0] = _test_cost(boxes[0], size)
    used, leaves = 1, 1
    while leaves < MOST_PIECES and used + 2 <= nodes:
        # Halve the leaf whose exact tests cost most.
        node = np.argmax(tests[:used])
        if tests[node] == 0.0:
            break
        tests[node] = 0.0
        axis = 0 if boxes[node, 2] - boxes[node, 0] >= boxes[node, 3] - boxes[node, 1] else 1
        middle = boxes[node, axis] + (boxes[node, axis + 2] - boxes[node, axis]) / 2.0
        if not boxes[node, axis] < middle < boxes[node, axis + 2]:
            continue
        start, stop = spans[node]
        buffer = with_room(buffer, size + 2 * (stop - start))
        leaves -= 1
        for half in range(2):
            box = boxes[used]
            for side in range(4):
                box[side] = boxes[node, side]
            box[axis + 2 * (1 - half)] = middle if half else np.nextafter(middle, -np.inf)
            state = _tighten(buffer, start, stop, box)
            if state == _OUTSIDE:
                continue
            end = _append_deciding(buffer, start, stop, box, size) if state == _CROSSED else size
            if state == _CROSSED and end == size:
                continue
            children[node, half] = used
            spans[used, 0], spans[used, 1] = size, end
            tests[used] = _test_cost(box, end - size)
            size = end
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
    leaf_boxes, leaves = np.empty((nodes, 4), np.float64), np.empty(nodes, np.int64)
    offsets = np.zeros(nodes + 1, np.int64)
    stack = np.zeros(nodes + 1, np.int64)
    pieces, waiting = 0, 1
    while waiting:
        waiting -= 1
        node = stack[waiting]
        if children[node, 0] < 0 and children[node, 1] < 0:
            leaf_boxes[pieces], leaves[pieces] = boxes[node], node
            pieces += 1
            offsets[pieces] = offsets[pieces - 1] + spans[node, 1] - spans[node, 0]
        for child in (children[node, 1], children[node, 0]):
            if child >= 0:
                stack[waiting] = child
                waiting += 1
    numbers = np.empty(offsets[pieces], np.float64)
    for piece in range(pieces):
        numbers[offsets[piece] : offsets[piece + 1]] = buffer[spans[leaves[piece], 0] : spans[leaves[piece], 1]]
    return leaf_boxes[:pieces].copy(), offsets[: pieces + 1].copy(), numbers


@kernel
def _cost(box, numbers):
    """Return the cost of a piece in postings read, with exact tests, at one object per square degree."""
    cells = cells_of_box(box[0], box[1], box[2], box[3])
    side = 360.0 / (1 << cells.level)
    return cells.wide * cells.high * side * side + _test_cost(box, numbers)


@kernel
def _test_cost(box, numbers):
    """Return the part of the cost that exact tests add; 0 for a piece without edges."""
    test = TEST_READS + EDGE_READS * (numbers // 4) if numbers else 0.0
    return test * (box[2] - box[0]) * (box[3] - box[1])


@kernel
def _tighten(edges, start, stop, box):
    """Shrink the box to the polygon's part in it; return _OUTSIDE (no part), _INSIDE (the whole box) or _CROSSED.

    The edges of the polygon are `edges[start:stop]`.
    """
    west, south, east, north = box
    least_x, least_y, greatest_x, greatest_y = np.inf, np.inf, -np.inf, -np.inf
    # The parts of the edges in the box.
    for at in range(start, stop, 4):
        x1, y1, x2, y2 = edges[at], edges[at + 1], edges[at + 2], edges[at + 3]
        # Most edges are too far away by more than any rounding below.
        if max(x1, x2) < west - 2 * MARGIN or min(x1, x2) > east + 2 * MARGIN:
            continue
        if max(y1, y2) < south - 2 * MARGIN or min(y1, y2) > north + 2 * MARGIN:
            continue
        wide, high = x2 - x1, y2 - y1
        enter, leave = _clip_range(x1, wide, west - MARGIN, east + MARGIN, 0.0, 1.0)
        enter, leave = _clip_range(y1, high, south - MARGIN, north + MARGIN, enter, leave)
        if enter <= leave:
            for t in (enter, leave):
                px, py = x1 + t * wide, y1 + t * high
                least_x, greatest_x = min(least_x, px), max(greatest_x, px)
                least_y, greatest_y = min(least_y, py), max(greatest_y, py)
    if least_x == np.inf:
        return _INSIDE if in_polygon(edges, start, stop, west, south) else _OUTSIDE
    # The corners of the box that are in the polygon.
    for px in (west, east):
        for py in (south, north):
            if in_polygon(edges, start, stop, px, py):
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
def _append_deciding(edges, start, stop, box, size):
    """Write to `edges[size:]` those of `edges[start:stop]` that decide which points of the box are inside the polygon.

    They are the edges that may touch the box, and the edges east of it. Only the parity of crossings of a ray to the
    east matters, so each chain of edges east of the box is replaced by one edge from its first vertex to its last.
    Returns the end of what is written.
    """
    west, south, east, north = box
    chained = False
    first_x, first_y, last_x, last_y = 0.0, 0.0, 0.0, 0.0
    for at in range(start, stop, 4):
        x1, y1, x2, y2 = edges[at], edges[at + 1], edges[at + 2], edges[at + 3]
        if min(x1, x2) > east:
            if not (chained and last_x == x1 and last_y == y1):
                size = _append_crossed(edges, size, first_x, first_y, last_x, last_y, chained, south, north)
                first_x, first_y, chained = x1, y1, True
            last_x, last_y = x2, y2
        elif max(x1, x2) >= west and min(y1, y2) <= north and max(y1, y2) >= south:
            edges[size], edges[size + 1], edges[size + 2], edges[size + 3] = x1, y1, x2, y2
            size += 4
    return _append_crossed(edges, size, first_x, first_y, last_x, last_y, chained, south, north)


@kernel
def _append_crossed(edges, size, x1, y1, x2, y2, chained, south, north):
    """Write the chain if a ray from a point of the box may cross it an odd number of times; return the new end."""
    if chained and min(y1, y2) <= north and max(y1, y2) > south:
        edges[size], edges[size + 1], edges[size + 2], edges[size + 3] = x1, y1, x2, y2
        return size + 4
    return size


# Check, turn and measure rings: `positions` int64[rings+1] is the slice of `points` float64[m,2], degrees, of each.


@kernel
def are_rings(positions, points):
    """Return whether each ring has four or more positions, the last as the first, within the world: bool[rings]."""
    sound = np.zeros(len(positions) - 1, np.bool_)
    for ring in range(len(sound)):
        start, stop = positions[ring], positions[ring + 1]
        if stop - start < 4 or points[start, 0] != points[stop - 1, 0] or points[start, 1] != points[stop - 1, 1]:
            continue
        within = True
        for i in range(start, stop):
            # NaN is within nothing.
            within = within and abs(points[i, 0]) <= 180.0 and abs(points[i, 1]) <= 90.0
        sound[ring] = within
    return sound


@kernel
def signed_areas(positions, points):
    """Return twice the area of each ring, positive if it is counter-clockwise, and a bound of its error.

    Both are float64[rings], in square degrees.
    """
    areas, errors = np.zeros(len(positions) - 1), np.zeros(len(positions) - 1)
    for ring in range(len(areas)):
        start, stop = positions[ring], positions[ring + 1]
        x0, y0 = points[start, 0], points[start, 1]
        size = 0.0
        for i in range(start, stop - 1):
            left = (points[i, 0] - x0) * (points[i + 1, 1] - y0)
            right = (points[i + 1, 0] - x0) * (points[i, 1] - y0)
            areas[ring] += left - right
            size += abs(left) + abs(right)
        # A rounding for each difference, product and sum, and products that underflow.
        errors[ring] = size * (stop - start + 8) * 2.0**-52 + 1e-300
    return areas, errors


@kernel
def turned_rings(positions, points, turned):
    """Return the points with the rings reversed that are `turned` (bool[rings])."""
    out = np.empty_like(points)
    for ring in range(len(turned)):
        start, stop = positions[ring], positions[ring + 1]
        for i in range(start, stop):
            source = start + stop - 1 - i if turned[ring] else i
            out[i, 0], out[i, 1] = points[source, 0], points[source, 1]
    return out


@kernel
def bounding_boxes(positions, points, rings):
    """Return west, south, east and north of the rings with these numbers (int64[n]): float64[n,4].

    Of equal numbers the first counts, which decides between 0.0 and -0.0.
    """
    boxes = np.empty((len(rings), 4))
    for place in range(len(rings)):
        start, stop = positions[rings[place]], positions[rings[place] + 1]
        west, south = points[start, 0], points[start, 1]
        east, north = west, south
        for i in range(start + 1, stop):
            x, y = points[i, 0], points[i, 1]
            west = x if x < west else west
            east = x if x > east else east
            south = y if y < south else south
            north = y if y > north else north
        boxes[place, 0], boxes[place, 1], boxes[place, 2], boxes[place, 3] = west, south, east, north
    return boxes
