"""Points and polygons, decided exactly: the slow twin of the polygon kernel, with which it shares no code.

The winding number decides, summed over the signs of determinants in fractions; edges are tested one by one before. The
comparison of two coordinates is exact without fractions.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

Ring = Sequence[Sequence[float]]
Corner = tuple[float, float]


def covers(rings: Sequence[Ring], lon: float, lat: float) -> bool:
    """Whether a valid polygon, or several that do not overlap, has the point inside or on an edge."""
    point, turns = (lon, lat), []
    for ring in rings:
        corners = [(x, y) for x, y, *_ in ring]
        if any(on_segment(point, a, b) for a, b in zip(corners, corners[1:])):
            return True
        turns.append(winding(point, corners))
    # Around a point inside an exterior and no hole of it, an odd number of rings wind.
    return sum(turn != 0 for turn in turns) % 2 == 1


def covers_geometry(geometry: dict[str, Any], lon: float, lat: float) -> bool:
    """As `covers`, of a GeoJSON Polygon or MultiPolygon."""
    polygons = [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]
    return any(covers(rings, lon, lat) for rings in polygons)


def crosses_itself(ring: Ring) -> bool:
    """Whether two edges of a ring meet that do not follow one another."""
    corners = [(x, y) for x, y, *_ in ring]
    edges = list(zip(corners, corners[1:]))
    pairs = ((i, j) for i in range(len(edges)) for j in range(i + 2, len(edges)) if (i, j) != (0, len(edges) - 1))
    return any(_meet(*edges[i], *edges[j]) for i, j in pairs)


def _meet(a: Corner, b: Corner, c: Corner, d: Corner) -> bool:
    if any(on_segment(*triple) for triple in ((a, c, d), (b, c, d), (c, a, b), (d, a, b))):
        return True
    return turn_of(a, c, d) * turn_of(b, c, d) < 0 and turn_of(c, a, b) * turn_of(d, a, b) < 0


def on_segment(point: Corner, a: Corner, b: Corner) -> bool:
    """Whether the point is on the straight line between two corners."""
    between = all(min(a[k], b[k]) <= point[k] <= max(a[k], b[k]) for k in (0, 1))
    return between and turn_of(point, a, b) == 0


def turn_of(point: Corner, a: Corner, b: Corner) -> Fraction:
    """Twice the area of the triangle, exactly: positive if the point is left of the way from a to b."""
    (x, y), (ax, ay), (bx, by) = (map(Fraction, place) for place in (point, a, b))
    return (bx - ax) * (y - ay) - (x - ax) * (by - ay)


def winding(point: Corner, corners: Sequence[Corner]) -> int:
    """How often a closed ring winds around a point that is not on it."""
    turns = 0
    for a, b in zip(corners, corners[1:]):
        if a[1] <= point[1] < b[1] and turn_of(point, a, b) > 0:
            turns += 1
        if b[1] <= point[1] < a[1] and turn_of(point, a, b) < 0:
            turns -= 1
    return turns
