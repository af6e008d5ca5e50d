"""Test whether the circle or polygon of an index piece contains a point, by the kernel of that shape."""

from pststream.kernels.compile import kernel
from pststream.kernels.matching.circle import in_circle
from pststream.kernels.matching.codes import CIRCLE
from pststream.kernels.matching.polygon import in_polygon


@kernel
def contains_point(code, numbers, start, stop, lon, lat):
    """Return whether the shape of `code` contains a point that lies in the box of the piece.

    numbers  float64[]: [start, stop) is the slice of the shape, as its module describes it
    """
    if code == CIRCLE:
        return in_circle(numbers, start, lon, lat)
    return in_polygon(numbers, start, stop, lon, lat)
