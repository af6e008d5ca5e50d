"""Counting the postings that objects read, without matching them."""

import numpy as np

from pststream.kernels.cells import MAX_LEVEL
from pststream.kernels.compile import kernel
from pststream.kernels.search import find, gallop


@kernel
def count_reads(
    order: np.ndarray,
    codes: np.ndarray,
    object_offsets: np.ndarray,
    places: np.ndarray,
    cells: np.ndarray,
    cell_keys: np.ndarray,
    key_term: np.ndarray,
    key_postings: np.ndarray,
) -> np.ndarray:
    """Postings that stand under each (object, term) in the object's cells of all levels: int32[len(places)].

    order                int64[objects]    the objects in Morton order
    codes                int64[objects]    `match.point_codes` of each in this order
    object_offsets       int64[objects+1]  slice of `places` of each object
    places               int32[n]          number of each of the objects' terms among those posted, or -1
    cells, cell_keys, key_term, key_postings   of the postings, as `segment.directory` returns them
    """
    reads = np.zeros(len(places), np.int32)
    for level in range(MAX_LEVEL + 1):
        marker, shift = 1 << (2 * level), 2 * (MAX_LEVEL - level)
        cell, last_cell = find(cells, 0, len(cells), marker), find(cells, 0, len(cells), marker << 2)
        at = 0
        while at < len(codes) and cell < last_cell:
            here = marker | (codes[at] >> shift)
            if cells[cell] < here:
                cell = gallop(cells, cell, last_cell, here)
                continue
            if cells[cell] > here:
                at = gallop(codes, at, len(codes), (cells[cell] - marker) << shift)
                continue
            first, last = cell_keys[cell], cell_keys[cell + 1]
            for j in range(object_offsets[order[at]], object_offsets[order[at] + 1]):
                if places[j] >= 0:
                    key = find(key_term, first, last, places[j])
                    if key < last and key_term[key] == places[j]:
                        reads[j] += key_postings[key + 1] - key_postings[key]
            at += 1
    return reads
