"""Sort points into Morton order, in which the points of an index cell of any level are neighbours."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.index_cells import MAX_LEVEL, column_of, interleave, row_of
from pststream.kernels.radix_sort import sort_values

_CODE_BITS = 2 * MAX_LEVEL
_PLACE_BITS = 64 - _CODE_BITS
MAX_POINTS = 1 << _PLACE_BITS


@kernel
def sort_points(lon, lat):
    """Return the order of fewer than MAX_POINTS points, and the Morton number of each point's cell on the finest level.

    Returns order int64[n] and codes int64[n], ascending; points of a cell stay in their order.
    """
    values = np.empty(len(lon), np.uint64)
    for i in range(len(lon)):
        code = interleave(column_of(lon[i]), row_of(lat[i]))
        values[i] = np.uint64((code << _PLACE_BITS) | i)
    values = sort_values(values, _PLACE_BITS, 64)
    order, codes = np.empty(len(lon), np.int64), np.empty(len(lon), np.int64)
    for i in range(len(lon)):
        order[i] = np.int64(values[i] & np.uint64(MAX_POINTS - 1))
        codes[i] = np.int64(values[i] >> np.uint64(_PLACE_BITS))
    return order, codes
