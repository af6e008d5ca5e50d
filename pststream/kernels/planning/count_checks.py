"""Count, in each raster cell, the pairs of an object there and a subscription over the cell that share a word.

`planning/cell_checks.py` prepares the arrays.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.search import find


@kernel
def count_checks(
    column: np.ndarray,
    row: np.ndarray,
    object_offsets: np.ndarray,
    object_terms: np.ndarray,
    levels: np.ndarray,
    columns: int,
    rows: int,
    keys: np.ndarray,
    term_start: np.ndarray,
    pieces: np.ndarray,
    ranges: np.ndarray,
    subscription: np.ndarray,
) -> np.ndarray:
    """Count the pairs of each raster cell: int64[rows, columns].

    column, row                   int64[objects]    raster cell of each object
    object_offsets, object_terms  CSR               live terms of each object, by position in the posted terms
    levels                        int64[l]          levels that pieces are posted at
    keys                          int64[postings]   `block_key` of each posting, ascending
    term_start                    int64[terms+1]    slice of the postings of each term
    pieces                        int32[postings]   piece of each posting
    ranges                        int32[pieces, 4]  first column, first row, last column, last row of each piece
    subscription                  int64[pieces]     subscription of each piece, numbered from 0
    """
    checks = np.zeros((rows, columns), np.int64)
    seen = np.full(len(subscription), -1, np.int64)
    for i in range(len(column)):
        x, y = column[i], row[i]
        for t in range(object_offsets[i], object_offsets[i + 1]):
            term = object_terms[t]
            for level in levels:
                # Read the postings of the term in the block of this level that has the object.
                key = block_key(np.int64(term), level, x >> level, y >> level)
                p, end = find(keys, term_start[term], term_start[term + 1], key), term_start[term + 1]
                while p < end and keys[p] == key:
                    x0, y0, x1, y1 = ranges[pieces[p]]
                    # A subscription that shares several words with the object counts once.
                    if x0 <= x <= x1 and y0 <= y <= y1 and seen[subscription[pieces[p]]] != i:
                        seen[subscription[pieces[p]]] = i
                        checks[y, x] += 1
                    p += 1
    return checks


@kernel
def block_key(term, level, block_x, block_y):
    """Return the key of a posting: its term, level, and row and column of the block of 2^level x 2^level cells.

    A raster has less than 2^16 columns and rows, so all four fit into 63 bits for up to 2^26 terms.
    """
    return (((term << 5 | level) << 16 | block_y) << 16) | block_x
