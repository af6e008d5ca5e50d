"""Count the index postings that each term of each sampled object would read, for the load model; nothing is matched."""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.matching.index_cells import MAX_LEVEL
from pststream.kernels.sort_and_search import find, gallop

SAMPLED_POSTINGS = 64

MAX_READS = 2**31 - 1
"""Maximum count of reads of an (object, term)."""


class ReadingObjects(NamedTuple):
    """Sampled objects, n of them, with m terms.

    order     int64[n]    the objects in Morton order
    codes     int64[n]    their Morton numbers in this order (`index_cells.sort_points`)
    offsets   int64[n+1]  slice of `terms` of each object
    terms     int32[m]    position of each term in the posted terms, or -1
    points    float64[n,2]  longitude and latitude of each object, degrees
    """

    order: np.ndarray
    codes: np.ndarray
    offsets: np.ndarray
    terms: np.ndarray
    points: np.ndarray


class ReadPostings(NamedTuple):
    """The postings of sampled pieces.

    cells, cell_keys, key_term, key_postings   as `build_segment.directory` returns them
    piece        int32[postings]    the piece of each posting
    boxes        float64[pieces,4]  west, south, east, north
    match_reads  int64[pieces]      reads that a match of each piece counts as; empty: no match counts
    """

    cells: np.ndarray
    cell_keys: np.ndarray
    key_term: np.ndarray
    key_postings: np.ndarray
    piece: np.ndarray
    boxes: np.ndarray
    match_reads: np.ndarray


@leaf
def _estimate_matches(read, first, end, point):
    """Estimate the `match_reads` of the postings in [first, end) whose boxes contain the point, from some of them."""
    step = (end - first + SAMPLED_POSTINGS - 1) // SAMPLED_POSTINGS
    sampled = matched = 0
    for p in range(first, end, step):
        box = read.boxes[read.piece[p]]
        sampled += 1
        contains = box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]
        matched += read.match_reads[read.piece[p]] if contains else 0
    return matched * (end - first) // sampled


@kernel
def count_reads(objects: ReadingObjects, read: ReadPostings, posting_reads: int) -> tuple[np.ndarray, np.ndarray]:
    """Postings under each (object, term) in the object's index cells of all levels, and their reads.

    Returns two int32[m]. As reads each posting counts as `posting_reads`, and as the `match_reads` of its piece more if
    its box contains the object. If a key has more than SAMPLED_POSTINGS postings, only a sample of their boxes is
    tested.
    """
    order, codes, object_offsets, places, points = objects
    cells, cell_keys, key_term, key_postings = read.cells, read.cell_keys, read.key_term, read.key_postings
    postings, reads = np.zeros(len(places), np.int32), np.zeros(len(places), np.int32)
    for level in range(MAX_LEVEL + 1):
        marker, shift = 1 << (2 * level), 2 * (MAX_LEVEL - level)
        cell, last_cell = find(cells, 0, len(cells), marker), find(cells, 0, len(cells), marker << 2)
        i = 0
        while i < len(codes) and cell < last_cell:
            # Advance the objects or the cells, whichever are behind, until an object lies in the cell.
            own_cell = marker | (codes[i] >> shift)
            if cells[cell] < own_cell:
                cell = gallop(cells, cell, last_cell, own_cell)
                continue
            if cells[cell] > own_cell:
                i = gallop(codes, i, len(codes), (cells[cell] - marker) << shift)
                continue
            # Count the postings of the object's terms in the cell.
            first, last = cell_keys[cell], cell_keys[cell + 1]
            for j in range(object_offsets[order[i]], object_offsets[order[i] + 1]):
                if places[j] >= 0:
                    key = find(key_term, first, last, places[j])
                    if key < last and key_term[key] == places[j]:
                        first_posting, end = key_postings[key], key_postings[key + 1]
                        postings[j] += end - first_posting
                        more = posting_reads * (end - first_posting)
                        if len(read.match_reads):
                            more += _estimate_matches(read, first_posting, end, points[order[i]])
                        reads[j] = min(reads[j] + more, MAX_READS)
            i += 1
    return postings, reads
