"""Build the arrays of an index segment from the boxes and CNF clauses of its pieces: postings, directory, hash table.

`matching/segments.py` calls these kernels and describes the arrays.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.index_cells import (
    MAX_LEVEL,
    column_of,
    fine_x,
    fine_y,
    interleave,
    level_of_box,
    row_of,
)

TERM_BITS = 26
"""A posting's sort key is (cell id << TERM_BITS) | segment-local term: 35 + 26 bits."""


@kernel
def count_postings(boxes, first_clause_size):
    """Number of postings of all pieces: index cells under each box times terms of the clause it is posted under."""
    total = 0
    for piece in range(boxes.shape[0]):
        shift = MAX_LEVEL - level_of_box(boxes[piece, 0], boxes[piece, 1], boxes[piece, 2], boxes[piece, 3])
        wide = (column_of(boxes[piece, 2]) >> shift) - (column_of(boxes[piece, 0]) >> shift) + 1
        high = (row_of(boxes[piece, 3]) >> shift) - (row_of(boxes[piece, 1]) >> shift) + 1
        total += wide * high * first_clause_size[piece]
    return total


@kernel
def first_cells(boxes):
    """The index cell of each box's south-west corner, on the level of the box (int64)."""
    cells = np.empty(boxes.shape[0], np.int64)
    for piece in range(boxes.shape[0]):
        level = level_of_box(boxes[piece, 0], boxes[piece, 1], boxes[piece, 2], boxes[piece, 3])
        shift = MAX_LEVEL - level
        column, row = column_of(boxes[piece, 0]) >> shift, row_of(boxes[piece, 1]) >> shift
        cells[piece] = (1 << (2 * level)) | interleave(column, row)
    return cells


@kernel
def fine_boxes(boxes):
    """Boxes in whole steps of `fine_x` and `fine_y` (int32)."""
    fine = np.empty(boxes.shape, np.int32)
    for piece in range(boxes.shape[0]):
        for side in (0, 2):
            fine[piece, side] = fine_x(boxes[piece, side])
            fine[piece, side + 1] = fine_y(boxes[piece, side + 1])
    return fine


@kernel
def fill_postings(boxes, clause_start, first_clause_size, literals, sort_key, posting_piece, posting_rank):
    """Write for each posting its sort key, its piece, and the place of its term in the clause."""
    posting = 0
    for piece in range(boxes.shape[0]):
        level = level_of_box(boxes[piece, 0], boxes[piece, 1], boxes[piece, 2], boxes[piece, 3])
        shift = MAX_LEVEL - level
        start = clause_start[piece]
        for row in range(row_of(boxes[piece, 1]) >> shift, (row_of(boxes[piece, 3]) >> shift) + 1):
            for column in range(column_of(boxes[piece, 0]) >> shift, (column_of(boxes[piece, 2]) >> shift) + 1):
                cell = (1 << (2 * level)) | interleave(column, row)
                for rank in range(first_clause_size[piece]):
                    sort_key[posting] = (cell << TERM_BITS) | literals[start + rank]
                    posting_piece[posting] = piece
                    posting_rank[posting] = rank
                    posting += 1
    return posting


@kernel
def directory(sort_key):
    """Return the directory of sorted postings: their index cells, and the keys (cell, term) of each cell.

    Returns cells int64[C] ascending, cell_keys int64[C+1] (slice of keys of each cell), key_term int32[K] ascending
    inside a cell, key_postings int32[K+1] (slice of postings of each key).
    """
    # Count the keys and the cells.
    postings = len(sort_key)
    keys = 0
    cells = 0
    for p in range(postings):
        if p == 0 or sort_key[p] != sort_key[p - 1]:
            keys += 1
            if p == 0 or (sort_key[p] >> TERM_BITS) != (sort_key[p - 1] >> TERM_BITS):
                cells += 1
    cell = np.empty(cells, np.int64)
    cell_keys = np.empty(cells + 1, np.int64)
    key_term = np.empty(keys, np.int32)
    key_postings = np.empty(keys + 1, np.int32)
    # Fill the directory.
    k = 0
    c = 0
    for p in range(postings):
        if p == 0 or sort_key[p] != sort_key[p - 1]:
            if p == 0 or (sort_key[p] >> TERM_BITS) != (sort_key[p - 1] >> TERM_BITS):
                cell[c] = sort_key[p] >> TERM_BITS
                cell_keys[c] = k
                c += 1
            key_term[k] = sort_key[p] & ((1 << TERM_BITS) - 1)
            key_postings[k] = p
            k += 1
    cell_keys[c] = k
    key_postings[k] = postings
    return cell, cell_keys, key_term, key_postings


@kernel
def term_levels(cells, cell_keys, key_term, terms):
    """Return the levels of each term: bit l of entry t is set if term t has a posting on level l (uint32[terms])."""
    mask = np.zeros(terms, np.uint32)
    for c in range(len(cells)):
        level = 0
        while (cells[c] >> (2 * (level + 1))) > 0:
            level += 1
        for k in range(cell_keys[c], cell_keys[c + 1]):
            mask[key_term[k]] |= np.uint32(1 << level)
    return mask


@kernel
def spot_of(term, terms):
    """The place of a term among the terms of a segment, scaled to [0, 2^32)."""
    return (np.int64(term) << 32) // terms


@kernel
def cell_buckets(cell_keys):
    """Return the first bucket of each cell and its shift from a spot to a bit (int64[C,2]), and the number of buckets.

    A cell has a power of two of buckets of 64 bits, 8 to 16 bits for each key.
    """
    starts = np.empty((len(cell_keys) - 1, 2), np.int64)
    total = 0
    for c in range(len(cell_keys) - 1):
        words, shift = 1, 26
        while words * 8 < cell_keys[c + 1] - cell_keys[c]:
            words *= 2
            shift -= 1
        starts[c, 0], starts[c, 1] = total, shift
        total += words
    return starts, total


@kernel
def fill_buckets(cell_keys, key_term, starts, total, terms):
    """Return the key bits and first key of each bucket (uint64[B+1,2]); the last row has the number of keys."""
    buckets = np.zeros((total + 1, 2), np.uint64)
    for c in range(len(cell_keys) - 1):
        # The keys of the cell, in the order of their terms.
        bucket = starts[c, 0]
        buckets[bucket, 1] = cell_keys[c]
        for k in range(cell_keys[c], cell_keys[c + 1]):
            place = spot_of(key_term[k], terms) >> starts[c, 1]
            while bucket < starts[c, 0] + (place >> 6):
                bucket += 1
                buckets[bucket, 1] = k
            buckets[bucket, 0] |= np.uint64(1) << np.uint64(place & 63)
        # The remaining buckets of the cell are empty.
        last = starts[c + 1, 0] if c + 1 < len(starts) else total
        for rest in range(bucket + 1, last):
            buckets[rest, 1] = cell_keys[c + 1]
    buckets[total, 1] = len(key_term)
    return buckets


@kernel
def hash_table(terms, bits):
    """Open addressing table of 2^bits slots: term id int64, its place in `terms` int32 (-1: free slot)."""
    size = 1 << bits
    slots = np.zeros(size, np.int64)
    places = np.full(size, -1, np.int32)
    for place in range(len(terms)):
        slot = slot_of(terms[place], bits)
        while places[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = terms[place]
        places[slot] = place
    return slots, places


@kernel
def slot_of(term, bits):
    """Home slot of a term id (the ids are hashes already; multiply to use their high bits)."""
    return np.int64((np.uint64(term) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))


@kernel
def look_up(term, slots, places, bits):
    """Place of a term id in the segment's terms, or -1."""
    slot = slot_of(term, bits)
    while places[slot] >= 0:
        if slots[slot] == term:
            return places[slot]
        slot = (slot + 1) & (len(slots) - 1)
    return -1
