"""Count, in each raster cell, the sampled objects sent to one worker and their posting reads; mark its pieces.

`planning/cell_loads.py` and `planning/block_loads.py` compute loads from these counts.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.routing.dispatch import PlanArrays, leaf_owner


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
    cell_leaf, leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit, unit_worker = plan
    counts, read = np.zeros(len(cell_leaf), np.int64), np.zeros(len(cell_leaf), np.int64)
    for i in range(len(cells)):
        leaf = cell_leaf[cells[i]]
        goes = False
        for t in range(object_offsets[i], object_offsets[i + 1]):
            if live[t]:
                unit = leaf_owner(
                    leaf, object_terms[t], leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit
                )
                if unit_worker[unit] == worker:
                    goes = True
                    read[cells[i]] += reads[t]
        counts[cells[i]] += goes
    return counts, read


@kernel
def mark_leaf_pieces(
    leaf: int, post_offsets: np.ndarray, post_terms: np.ndarray, plan: PlanArrays, worker: int
) -> np.ndarray:
    """Mark the pieces that the worker would store if they lay in the leaf: bool[pieces]."""
    _, leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit, unit_worker = plan
    stored = np.zeros(len(post_offsets) - 1, np.bool_)
    for piece in range(len(stored)):
        for t in range(post_offsets[piece], post_offsets[piece + 1]):
            unit = leaf_owner(
                leaf, post_terms[t], leaf_unit, term_offsets, terms, term_unit, spread_offsets, spread_unit
            )
            if unit_worker[unit] == worker:
                stored[piece] = True
                break
    return stored
