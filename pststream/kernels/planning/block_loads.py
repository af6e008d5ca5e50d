"""Group raster cells along a curve into blocks with enough objects, and count one worker's pieces in each block.

`planning/block_loads.py` calls it for load adjustment, which moves blocks of cells between workers.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.routing.dispatch import PlanArrays, leaf_owner
from pststream.kernels.routing.pyramid import Pyramid, find_distinct_codes, make_search


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
    _, leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit, unit_worker = plan
    counts = np.zeros(blocks, np.int64)
    counted = np.full(blocks, -1, np.int64)
    search = make_search(pyramid)
    for piece in range(len(ranges)):
        for i in range(find_distinct_codes(ranges[piece], pyramid, search, piece)):
            # Skip cells without a block, and blocks that have the piece already.
            code = search.codes[i]
            if code == len(code_leaf) or counted[code_block[code]] == piece:
                continue
            # The worker stores the piece here if it owns one of the terms in this leaf.
            leaf = code_leaf[code]
            for t in range(post_offsets[piece], post_offsets[piece + 1]):
                unit = leaf_owner(
                    leaf, post_terms[t], leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit
                )
                if unit_worker[unit] == worker:
                    counted[code_block[code]] = piece
                    counts[code_block[code]] += 1
                    break
    return counts
