"""Test whether the circle or polygon of an index piece contains a point, and bound circles by boxes."""

import math

import numpy as np

from pststream.kernels.compile import kernel

# Codes of the shapes of exact tests in a segment; a box needs no test, so it has no code.

CIRCLE = 1
POLYGON = 2

EARTH_RADIUS_M = 6_371_008.8

PAD = 1e-6
"""Degrees: far more than the rounding of the haversine formula (1e-8), and too little to add candidates."""

NEAR_POLE = 1e-4
NEAR_HALF_TURN = math.pi - 1e-4


@kernel
def haversine(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Return the haversine of the angle between two points in degrees, by the same operations as `haversine_m`."""
    lon1, lat1, lon2, lat2 = math.radians(lon1), math.radians(lat1), math.radians(lon2), math.radians(lat2)
    a = math.sin((lat2 - lat1) / 2.0) ** 2
    return a + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2.0) ** 2


@kernel
def metres_of(a: float) -> float:
    """Return the great-circle distance of a haversine, in metres."""
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a)))


@kernel
def in_circle(numbers, start, lon, lat):
    """Return whether the great-circle distance (haversine formula) is at most the radius.

    numbers  float64[]: from `start` on, longitude and latitude of the centre in degrees, radius in metres
    """
    return metres_of(haversine(numbers[start], numbers[start + 1], lon, lat)) <= numbers[start + 2]


@kernel
def boxes_around(circles):
    """Return the boxes that contain every point of each circle: owners int64[boxes], float64[boxes, 4] in degrees.

    circles  float64[n, 3]: longitude and latitude in degrees, radius in metres
    A circle that crosses the antimeridian has two boxes, west of it and east of it. If a pole is inside or nearly so,
    the box is over all longitudes.
    """
    owner, boxes = np.empty(2 * len(circles), np.int64), np.empty((2 * len(circles), 4))
    count = 0
    for row in range(len(circles)):
        lon, lat, angle = circles[row, 0], circles[row, 1], circles[row, 2] / EARTH_RADIUS_M
        reach = math.degrees(angle) + PAD
        south, north = max(-90.0, lat - reach), min(90.0, lat + reach)
        west, east = -180.0, 180.0
        if angle >= NEAR_HALF_TURN:
            south, north = -90.0, 90.0
        elif abs(lat) + reach < 90.0 - NEAR_POLE:
            half = math.degrees(math.asin(min(1.0, math.sin(angle) / math.cos(math.radians(lat))))) + PAD
            west, east = lon - half, lon + half
        owner[count : count + 2] = row
        boxes[count : count + 2, 1], boxes[count : count + 2, 3] = south, north
        boxes[count, 0], boxes[count, 2] = west, east
        if west < -180.0:
            boxes[count, 0], boxes[count, 2] = west + 360.0, 180.0
        elif east > 180.0:
            boxes[count, 2] = 180.0
        if west < -180.0 or east > 180.0:
            count += 1
            boxes[count, 0], boxes[count, 2] = -180.0, east if west < -180.0 else east - 360.0
        count += 1
    return owner[:count].copy(), boxes[:count].copy()


# Test a polygon exactly, from the edges that `cut_polygon` keeps for one box of it.

_EPSILON = 2.0**-53
_ERROR_BOUND = (3.0 + 16.0 * _EPSILON) * _EPSILON
_SPLITTER = 2.0**27 + 1.0
_UNDERFLOW = 1e-280
_STEP_UP = 2.0**64
_SCALE_UP = 2.0**400


@kernel
def in_polygon(edges, start, stop, lon, lat):
    """Return whether the point is inside the polygon or on its boundary, which is straight in degrees.

    A ray to the east from a point inside crosses the boundary an odd number of times.

    edges  float64[]: from `start` to `stop`, four numbers for each edge: x1, y1, x2, y2 (degrees). They are all edges
           that touch the box of the piece, and edges east of the box with the same parity of crossings as the polygon
           has there (`cut_polygon`).
    """
    inside = False
    for edge in range(start, stop, 4):
        x1, y1, x2, y2 = edges[edge], edges[edge + 1], edges[edge + 2], edges[edge + 3]
        if (y1 <= lat) != (y2 <= lat):
            # The lower end counts, the upper does not, so a ray through a vertex counts each edge correctly.
            if lon < min(x1, x2):
                inside = not inside
            elif lon <= max(x1, x2):
                side = side_of_line(x1, y1, x2, y2, lon, lat)
                if side == 0:
                    return True
                inside = inside != ((side > 0) == (y2 > y1))
        elif y1 == lat and y2 == lat and min(x1, x2) <= lon and lon <= max(x1, x2):
            return True
        if (x1 == lon and y1 == lat) or (x2 == lon and y2 == lat):
            return True
    return inside


@kernel
def side_of_line(x1, y1, x2, y2, x, y):
    """Sign of the determinant: 1 if (x, y) is left of the line from (x1, y1) to (x2, y2), -1 right, 0 on it.

    An error bound shows whether floating point decides. Source: Shewchuk, Adaptive precision floating-point arithmetic
    and fast robust geometric predicates, 1997 (orient2d).
    """
    left = (x1 - x) * (y2 - y)
    right = (y1 - y) * (x2 - x)
    determinant = left - right
    magnitude = abs(left) + abs(right)
    if magnitude > _UNDERFLOW and abs(determinant) > _ERROR_BOUND * magnitude:
        return 1 if determinant > 0.0 else -1
    return _exact_side(x1, y1, x2, y2, x, y)


@kernel
def _exact_side(x1, y1, x2, y2, x, y):
    """Compute `side_of_line` exactly, by expansions (sums of floats without rounding error).

    Exact unless coordinate differences span more than 260 orders of magnitude, where products underflow.
    """
    # Write differences as exact sums of two floats, and scale them so that products of small ones do not underflow.
    ax, ax_tail = _two_difference(x1, x)
    by, by_tail = _two_difference(y2, y)
    ay, ay_tail = _two_difference(y1, y)
    bx, bx_tail = _two_difference(x2, x)
    greatest = max(max(abs(ax), abs(by)), max(abs(ay), abs(bx)))
    if greatest == 0.0:
        return 0
    while greatest < 1.0:
        greatest *= _STEP_UP
        ax, ax_tail, by, by_tail = ax * _STEP_UP, ax_tail * _STEP_UP, by * _STEP_UP, by_tail * _STEP_UP
        ay, ay_tail, bx, bx_tail = ay * _STEP_UP, ay_tail * _STEP_UP, bx * _STEP_UP, bx_tail * _STEP_UP
    terms = np.empty(16, np.float64)
    count = 0
    for p, p_tail, q, q_tail, sign in ((ax, ax_tail, by, by_tail, 1.0), (ay, ay_tail, bx, bx_tail, -1.0)):
        for u in (p * sign * _SCALE_UP, p_tail * sign * _SCALE_UP):
            for v in (q * _SCALE_UP, q_tail * _SCALE_UP):
                product, error = _two_product(u, v)
                terms[count], terms[count + 1] = product, error
                count += 2
    return _sign_of_sum(terms)


@kernel
def _sign_of_sum(terms):
    """Return the sign of the exact sum of the terms, by an expansion of parts that do not overlap, smallest first."""
    expansion = np.zeros(len(terms), np.float64)
    size = 0
    for term in terms:
        total = term
        kept = 0
        for i in range(size):
            total, error = _two_sum(total, expansion[i])
            if error != 0.0:
                expansion[kept] = error
                kept += 1
        if total != 0.0:
            expansion[kept] = total
            kept += 1
        size = kept
    if size == 0:
        return 0
    return 1 if expansion[size - 1] > 0.0 else -1


@kernel
def _two_sum(a, b):
    """The rounded sum and its error."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


@kernel
def _two_difference(a, b):
    """The rounded difference and its error."""
    total = a - b
    virtual = a - total
    return total, (a - (total + virtual)) + (virtual - b)


@kernel
def _split(a):
    """Split a float into a sum of two floats with half as many bits each."""
    large = _SPLITTER * a
    high = large - (large - a)
    return high, a - high


@kernel
def _two_product(a, b):
    """The rounded product and its error."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


@kernel
def contains_point(code, numbers, start, stop, lon, lat):
    """Return whether the shape of `code` contains a point that lies in the box of the piece.

    numbers  float64[]: [start, stop) is the slice of the shape, as its module describes it
    """
    if code == CIRCLE:
        return in_circle(numbers, start, lon, lat)
    return in_polygon(numbers, start, stop, lon, lat)
