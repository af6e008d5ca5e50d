"""Counting the postings that objects read, without matching them."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.index_cells import MAX_LEVEL
from pststream.kernels.search import find, gallop

LOOKED_AT = 64

MOST = 2**31 - 1
"""Reads that are counted of an (object, term)."""


@kernel
def _holding(piece, boxes, first, end, point):
    """About how many of the postings in [first, end) have boxes that hold the point."""
    step = (end - first + LOOKED_AT - 1) // LOOKED_AT
    seen = held = 0
    for p in range(first, end, step):
        box = boxes[piece[p]]
        seen += 1
        held += box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]
    return held * (end - first) // seen


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
    piece: np.ndarray,
    boxes: np.ndarray,
    points: np.ndarray,
    match_reads: int,
) -> np.ndarray:
    """Postings that stand under each (object, term) in the object's cells of all levels, each of those whose box holds
    the object counted as `match_reads` more: int32[len(places)]. Of more than LOOKED_AT postings of a key some are
    looked at and stand for all.

    order                int64[objects]    the objects in Morton order
    codes                int64[objects]    `match.point_codes` of each in this order
    object_offsets       int64[objects+1]  slice of `places` of each object
    places               int32[n]          number of each of the objects' terms among those posted, or -1
    cells, cell_keys, key_term, key_postings   of the postings, as `segment.directory` returns them
    piece                int32[postings]   the piece of each posting
    boxes                float64[pieces,4]
    points               float64[objects,2]  longitude and latitude of each object
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
                        first_posting, end = key_postings[key], key_postings[key + 1]
                        reads[j] += end - first_posting
                        if match_reads:
                            held = _holding(piece, boxes, first_posting, end, points[order[at]])
                            reads[j] = min(reads[j] + match_reads * held, MOST)
            at += 1
    return reads
