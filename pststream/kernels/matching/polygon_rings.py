"""Check, turn and measure the rings of many polygons at once.

All functions take `positions` int64[rings+1], the slice of `points` of each ring, and `points` float64[m,2], longitude
and latitude in degrees.
"""

import numpy as np

from pststream.kernels.compile import kernel


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
