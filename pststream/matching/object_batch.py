"""Sort the objects of a micro-batch into Morton order of their points, the order that the matching kernels need."""

from dataclasses import dataclass

import numpy as np

from pststream.base.read_only import read_only
from pststream.kernels.matching.object_block import Objects
from pststream.kernels.matching.point_order import sort_points


@dataclass(frozen=True)
class ObjectBatch:
    """Objects and their Morton order: `order` int64[n], the position of each; codes int64[n], their Morton numbers.

    The other arrays are in the order in which the objects came: lon, lat float64[n] degrees; ts int64[n] microseconds;
    term_offsets int64[n+1], terms int64[m]; units int32[m]: the unit that each (object, term) is matched for, -1 if
    another worker matches it.
    """

    arrays: Objects

    @property
    def order(self) -> np.ndarray:
        """Position of each object in Morton order: int64[n]."""
        return self.arrays.order

    @property
    def objects(self) -> int:
        """Number of objects."""
        return len(self.arrays.order)


def sort_objects(
    lon: np.ndarray, lat: np.ndarray, ts: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray, units: np.ndarray
) -> ObjectBatch:
    """Sort objects into Morton order."""
    lon, lat, ts, terms = map(read_only, (lon, lat, ts, terms))
    order, codes = sort_points(lon, lat)
    return ObjectBatch(Objects(order, codes, lon, lat, ts, term_offsets, terms, units))
