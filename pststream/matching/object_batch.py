"""Sort the objects of a micro-batch into Morton order of their points, the order that the matching kernels need."""

from dataclasses import dataclass

import numpy as np

from pststream.kernels.matching.match_segment import point_codes


@dataclass(frozen=True)
class ObjectBatch:
    """Objects sorted by `codes`, the Morton numbers of their points; `order` int64[n]: positions before sorting.

    codes int64[n]; lon, lat float64[n] degrees; ts int64[n] microseconds; term_offsets int64[n+1], terms int64[m];
    units int32[m]: the unit that each (object, term) is matched for, -1 if another worker matches it.
    """

    order: np.ndarray
    codes: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    ts: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray
    units: np.ndarray

    @property
    def objects(self) -> int:
        """Number of objects."""
        return len(self.codes)


def sort_objects(
    lon: np.ndarray, lat: np.ndarray, ts: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray, units: np.ndarray
) -> ObjectBatch:
    """Sort objects into Morton order."""
    codes = point_codes(lon, lat)
    order = np.argsort(codes, kind="stable")
    lengths = np.diff(term_offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    source = np.repeat(term_offsets[:-1][order] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return ObjectBatch(order, codes[order], lon[order], lat[order], ts[order], offsets, terms[source], units[source])
