"""Count objects, pieces and their pairs by raster cell or block for load adjustment, and select cells to migrate.

`planning/cell_loads.py` and `planning/balancing/local_adjustment.py` call these kernels.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.routing.dispatch import PlanArrays, leaf_owner
from pststream.kernels.routing.pyramid import Pyramid, find_distinct_codes, make_search
from pststream.kernels.sort_and_search import find


@kernel
def count_cell_objects(
    cells: np.ndarray,
    object_offsets: np.ndarray,
    object_terms: np.ndarray,
    live: np.ndarray,
    reads: np.ndarray,
    plan: PlanArrays,
    worker: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Count the objects of each raster cell that are sent to the worker, and the postings that they read there.

    Returns objects int64[cells], reads int64[cells].

    reads  int32[len(object_terms)]  postings that each (object, term) reads
    The other arguments as in `dispatch.route`.
    """
    cell_leaf, unit_worker = plan.cell_leaf, plan.unit_worker
    counts, read = np.zeros(len(cell_leaf), np.int64), np.zeros(len(cell_leaf), np.int64)
    for i in range(len(cells)):
        leaf = cell_leaf[cells[i]]
        goes = False
        for t in range(object_offsets[i], object_offsets[i + 1]):
            if live[t]:
                unit = leaf_owner(leaf, object_terms[t], plan)
                if unit_worker[unit] == worker:
                    goes = True
                    read[cells[i]] += reads[t]
        counts[cells[i]] += goes
    return counts, read


@leaf
def _is_stored(
    piece: int, leaf: int, post_offsets: np.ndarray, post_terms: np.ndarray, plan: PlanArrays, worker: int
) -> bool:
    """Return whether the worker owns a term of the piece in the leaf, and so stores it there."""
    for t in range(post_offsets[piece], post_offsets[piece + 1]):
        if plan.unit_worker[leaf_owner(leaf, post_terms[t], plan)] == worker:
            return True
    return False


@kernel
def mark_leaf_pieces(
    leaf: int, post_offsets: np.ndarray, post_terms: np.ndarray, plan: PlanArrays, worker: int
) -> np.ndarray:
    """Mark the pieces that the worker would store if they lay in the leaf: bool[pieces]."""
    stored = np.empty(len(post_offsets) - 1, np.bool_)
    for piece in range(len(stored)):
        stored[piece] = _is_stored(piece, leaf, post_offsets, post_terms, plan, worker)
    return stored


# Group raster cells along a curve into blocks, which load adjustment moves between workers.


@kernel
def cut_into_blocks(objects: np.ndarray, least: int) -> np.ndarray:
    """Return the block of each raster cell of a walk: int64[n], from 0, ascending.

    objects  int64[n]   objects of each cell
    least    number of objects at which a block ends; the cells left at the end of the walk join the last block
    """
    block = np.empty(len(objects), np.int64)
    number, block_objects = 0, 0
    for i in range(len(objects)):
        block[i] = number
        block_objects += objects[i]
        if block_objects >= least:
            number, block_objects = number + 1, 0
    # The last block is too small: join its cells to the one before.
    for i in range(len(objects) - 1, -1, -1):
        if number == 0 or block[i] < number:
            break
        block[i] = number - 1
    return block


@kernel
def count_block_pieces(
    ranges: np.ndarray,
    post_offsets: np.ndarray,
    post_terms: np.ndarray,
    plan: PlanArrays,
    worker: int,
    pyramid: Pyramid,
    code_leaf: np.ndarray,
    code_block: np.ndarray,
    blocks: int,
) -> np.ndarray:
    """Count the pieces that overlap each block and that the worker stores there: int64[blocks].

    ranges      int32[pieces, 4]  raster cells of each piece's box
    pyramid     over the code of each raster cell; cells without a block have the last code
    code_leaf, code_block   int64[codes-1]   leaf and block of the cells with each of the other codes
    """
    counts = np.zeros(blocks, np.int64)
    counted = np.full(blocks, -1, np.int64)
    search = make_search(pyramid)
    for piece in range(len(ranges)):
        for i in range(find_distinct_codes(ranges[piece], pyramid, search, piece)):
            # Skip cells without a block, and blocks that have the piece already.
            code = search.codes[i]
            if code == len(code_leaf) or counted[code_block[code]] == piece:
                continue
            if _is_stored(piece, code_leaf[code], post_offsets, post_terms, plan, worker):
                counted[code_block[code]] = piece
                counts[code_block[code]] += 1
    return counts


class CellObjects(NamedTuple):
    """The objects of a sample: raster cells, and live terms by their position in the posted terms.

    column, row  int64[n]    raster cell of each object
    offsets      int64[n+1]  slice of `terms` of each object
    terms        int32[m]
    """

    column: np.ndarray
    row: np.ndarray
    offsets: np.ndarray
    terms: np.ndarray


class PostedPieces(NamedTuple):
    """The postings of p pieces, by key: each piece is posted under its terms in blocks of raster cells.

    keys          int64[postings]  `block_key` of each posting, ascending
    term_start    int64[terms+1]   slice of the postings of each term
    pieces        int32[postings]  piece of each posting
    levels        int64[l]         levels that pieces are posted at
    ranges        int32[p,4]       first column, first row, last column, last row of each piece
    subscription  int64[p]         subscription of each piece, numbered from 0
    """

    keys: np.ndarray
    term_start: np.ndarray
    pieces: np.ndarray
    levels: np.ndarray
    ranges: np.ndarray
    subscription: np.ndarray


@kernel
def count_checks(objects: CellObjects, posted: PostedPieces, columns: int, rows: int) -> np.ndarray:
    """Count, in each raster cell, the pairs of an object and a subscription that share a word: int64[rows, columns]."""
    column, row, offsets, terms = objects
    keys, term_start, pieces, levels, ranges, subscription = posted
    checks = np.zeros((rows, columns), np.int64)
    seen = np.full(len(subscription), -1, np.int64)
    for i in range(len(column)):
        x, y = column[i], row[i]
        for t in range(offsets[i], offsets[i + 1]):
            term = terms[t]
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


# Select raster cells to migrate, with enough load and the least size: greedy scan, exact dynamic programming.


@kernel
def find_cheapest_candidate(order, loads, sizes, wanted):
    """Find the cheapest candidate of greedy selection.

    order   int64[n]     cells by relative cost, cheapest first
    wanted  float64      load that must be reached
    A cell is added as long as the load stays below `wanted`. Each other cell completes a candidate, which is the cells
    added before it and the cell itself. Returns the position in `order` of the last cell of the cheapest candidate (-1:
    there is no candidate), and the cost of this candidate.
    """
    load, size = 0.0, 0
    best, best_cost = -1, 0
    for position in range(len(order)):
        cell = order[position]
        if load + loads[cell] < wanted:
            load += loads[cell]
            size += sizes[cell]
        elif best < 0 or size + sizes[cell] < best_cost:
            best, best_cost = position, size + sizes[cell]
    return best, best_cost


@kernel
def mark_candidate(order, loads, wanted, last):
    """Mark the cells of the candidate that is completed at position `last` of `order`: bool[n]."""
    chosen = np.zeros(len(order), np.bool_)
    load = 0.0
    for position in range(last):
        cell = order[position]
        if load + loads[cell] < wanted:
            load += loads[cell]
            chosen[position] = True
    chosen[last] = True
    return chosen


@kernel
def drop_redundant(cells, loads, wanted):
    """Drop, in this order, each cell that the load can do without to reach `wanted`; mark the rest: bool[cells]."""
    kept = np.ones(len(cells), np.bool_)
    load = 0.0
    for cell in cells:
        load += loads[cell]
    for position in range(len(cells)):
        if load - loads[cells[position]] >= wanted:
            load -= loads[cells[position]]
            kept[position] = False
    return kept


@kernel
def find_cheapest_subset(loads, sizes, bound, wanted):
    """Mark the cells of least total size whose load is at least `wanted`: bool[n], empty if `bound` is too small.

    sizes  int64[n], in steps
    bound  int64, steps: the greatest total size that is looked at
    Keeps one row of greatest loads by size, updated for each cell, and a bit for each (cell, size) to follow the
    choices back: n * bound / 8 bytes.
    """
    cells = len(loads)
    words = (bound >> 6) + 1
    best = np.zeros(bound + 1, np.float64)
    uses_cell = np.zeros((cells, words), np.uint64)
    # Update the greatest load of each total size with one cell after another.
    for cell in range(cells):
        size, load = sizes[cell], loads[cell]
        for total in range(bound, size - 1, -1):
            with_it = best[total - size] + load
            if with_it > best[total]:
                best[total] = with_it
                uses_cell[cell, total >> 6] |= np.uint64(1) << np.uint64(total & 63)
    # Find the least size that reaches the load.
    total = 0
    while total <= bound and best[total] < wanted:
        total += 1
    if total > bound:
        return np.zeros(0, np.bool_)
    # Follow the bits back from it.
    chosen = np.zeros(cells, np.bool_)
    for cell in range(cells - 1, -1, -1):
        if (uses_cell[cell, total >> 6] >> np.uint64(total & 63)) & np.uint64(1):
            chosen[cell] = True
            total -= sizes[cell]
    return chosen
