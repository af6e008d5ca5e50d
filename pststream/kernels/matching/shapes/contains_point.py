"""Dispatch the exact test of a point to the shape of a piece."""

from pststream.kernels.compile import kernel
from pststream.kernels.matching.shapes.circle import in_circle
from pststream.kernels.matching.shapes.codes import CIRCLE
from pststream.kernels.matching.shapes.polygon import in_polygon


@kernel
def contains_point(code, numbers, start, stop, lon, lat):
    """Whether the shape of `code` contains a point that lies in the box of the piece.

    numbers  float64[]: those of the shape are in [start, stop), see the module of the shape
    """
    if code == CIRCLE:
        return in_circle(numbers, start, lon, lat)
    return in_polygon(numbers, start, stop, lon, lat)
