"""Blocks of neighbouring cells, and the pieces that one worker stores in each."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.routing.dispatch import PlanArrays, leaf_owner
from pststream.kernels.routing.pyramid import Pyramid, distinct_codes, new_search


@kernel
def fill_blocks(objects: np.ndarray, least: int) -> np.ndarray:
    """The block of each cell of a walk: int64[n], from 0, ascending.

    objects  int64[n]   objects of each cell
    least    a block ends when it has so many; what is left at the end of the walk joins the last one
    """
    block = np.empty(len(objects), np.int64)
    number, held = 0, 0
    for i in range(len(objects)):
        block[i] = number
        held += objects[i]
        if held >= least:
            number, held = number + 1, 0
    for i in range(len(objects) - 1, -1, -1):
        if number == 0 or block[i] < number:
            break
        block[i] = number - 1
    return block


@kernel
def pieces_of_blocks(
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
    """Pieces that lie over each block and that the worker stores there: int64[blocks].

    ranges      int32[pieces, 4]  cells of each piece's box
    pyramid     over the code of each cell, the last of them that of cells without a block
    code_leaf, code_block   int64[codes-1]   leaf and block of the cells with each of the other codes
    """
    _, leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit, unit_worker = plan
    counts = np.zeros(blocks, np.int64)
    counted = np.full(blocks, -1, np.int64)
    search = new_search(pyramid)
    for piece in range(len(ranges)):
        for i in range(distinct_codes(ranges[piece], pyramid, search, piece)):
            code = search.found[i]
            if code == len(code_leaf) or counted[code_block[code]] == piece:
                continue
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
