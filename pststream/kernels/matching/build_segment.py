"""Build the arrays of an index segment from the boxes and CNF clauses of its pieces: postings, directory, hash table.

`matching/segments.py` calls these kernels and describes the arrays.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.matching.index_cells import MAX_LEVEL, cells_of_box, interleave
from pststream.kernels.matching.postings import TERM, TERM_BITS, encode_box, words_of_piece

SORT_KEY_BITS = 2 * MAX_LEVEL + 1 + TERM_BITS
"""A posting's sort key is (cell id << TERM_BITS) | segment-local term."""

_AHEAD = 16
"""Postings ahead whose piece is fetched."""


@kernel
def _cells_of(boxes, piece):
    """Return the index cells of the box of a piece; without a view of the row, which would be counted."""
    return cells_of_box(boxes[piece, 0], boxes[piece, 1], boxes[piece, 2], boxes[piece, 3])


@kernel
def count_postings(boxes, first_clause_size):
    """Number of postings of all pieces: index cells under each box times terms of the clause it is posted under."""
    total = 0
    for piece in range(boxes.shape[0]):
        covered = _cells_of(boxes, piece)
        total += covered.wide * covered.high * first_clause_size[piece]
    return total


@kernel
def first_cells(boxes):
    """The index cell of each box's south-west corner, on the level of the box (int64)."""
    cells = np.empty(boxes.shape[0], np.int64)
    for piece in range(boxes.shape[0]):
        covered = _cells_of(boxes, piece)
        cells[piece] = (1 << (2 * covered.level)) | interleave(covered.column, covered.row)
    return cells


@kernel
def fill_postings(boxes, first_literal, first_clause_size, literals, sort_key, posting_piece):
    """Write for each posting its sort key and its piece; return the number of postings.

    first_literal: the place in `literals` of the first term of the clause that a piece is posted under
    """
    posting = 0
    for piece in range(boxes.shape[0]):
        level, first_column, first_row, wide, high = _cells_of(boxes, piece)
        start = first_literal[piece]
        for row in range(first_row, first_row + high):
            for column in range(first_column, first_column + wide):
                cell = (1 << (2 * level)) | interleave(column, row)
                for rank in range(first_clause_size[piece]):
                    sort_key[posting] = (cell << TERM_BITS) | (literals[start + rank] & TERM)
                    posting_piece[posting] = piece
                    posting += 1
    return posting


@kernel
def encode_postings(sort_key, posting_piece, boxes, first_literal, literals):
    """Encode sorted postings (`postings.py`): uint64[P,2]."""
    postings = np.empty((len(sort_key), 2), np.uint64)
    for p in range(len(sort_key)):
        prefetch(boxes, posting_piece[min(p + _AHEAD, len(sort_key) - 1)])
        prefetch(literals, first_literal[posting_piece[min(p + _AHEAD, len(sort_key) - 1)]])
        piece, cell = posting_piece[p], sort_key[p] >> TERM_BITS
        # The cell of the posting is one of the up to four that the box covers.
        level, first_column, row, wide, _ = _cells_of(boxes, piece)
        column, marker = first_column, np.int64(1) << (2 * level)
        while marker | interleave(column, row) != cell:
            column += 1
            if column == first_column + wide:
                column, row = first_column, row + 1
        words = words_of_piece(literals, first_literal[piece], sort_key[p] & TERM)
        postings[p, 0] = encode_box(boxes[piece], column, row, level)
        postings[p, 1] = words | np.uint64(piece)
    return postings


@kernel
def level_of_cell(cell):
    """The level of an index cell, from its id."""
    level = 0
    while (cell >> (2 * (level + 1))) > 0:
        level += 1
    return level


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
    """Return the levels of each term: bit l of entry t is set if term t has a posting on level l (int64[terms])."""
    levels = np.zeros(terms, np.int64)
    for c in range(len(cells)):
        bit = np.int64(1) << level_of_cell(cells[c])
        for k in range(cell_keys[c], cell_keys[c + 1]):
            levels[key_term[k]] |= bit
    return levels
