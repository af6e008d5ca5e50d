"""Count the checks of each raster cell of a sample, the cost of a cell in Tornado."""

import numpy as np

from pststream.base.sorted_keys import distinct_values
from pststream.kernels.planning.count_checks import block_key, count_checks
from pststream.planning.live_terms import find_posted_terms
from pststream.planning.raster_ranges import compute_cell_ranges
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample


def count_cell_checks(sample: WorkloadSample, grid: DispatchGrid) -> np.ndarray:
    """Return the sum, over the sampled objects of each raster cell, of the cell's subscriptions that share a word.

    The subscriptions of a cell are those whose box touches it; their words are those that they are posted under.

    Returns int64[rows, columns], not scaled.

    Source: Tornado, section 4, Equation 1. Departure: a subscription counts for the words that it is posted under
    (all words of a single OR, the rarest of an AND), as only these bring it before an object here.
    """
    posted, positions = find_posted_terms(sample)
    live = np.concatenate([[0], np.cumsum(positions >= 0)])
    ranges = compute_cell_ranges(grid, sample.boxes)
    keys, pieces, levels = _post_pieces(sample, posted, ranges)
    return np.asarray(
        count_checks(
            grid.cell_x(sample.lon),
            grid.cell_y(sample.lat),
            live[sample.term_offsets],
            positions[positions >= 0],
            levels,
            grid.columns,
            grid.rows,
            keys,
            np.searchsorted(keys, block_key(np.arange(len(posted) + 1), 0, 0, 0)),
            pieces,
            ranges,
            np.unique(sample.piece_key, return_inverse=True)[1],
        )
    )


def _post_pieces(
    sample: WorkloadSample, posted: np.ndarray, ranges: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Post each piece under its terms in the blocks that it touches, at the level where these are four at most.

    The blocks of a level are 2^level cells wide; the level of a piece is the first whose blocks are as wide as it.
    Returns keys int64[postings], ascending, their pieces int32[postings], and the levels int64[l].
    """
    first, last = ranges[:, :2].astype(np.int64), ranges[:, 2:].astype(np.int64)
    widest = (last - first).max(axis=1, initial=0) + 1
    level = np.ceil(np.log2(widest)).astype(np.int64)
    low, high = first >> level[:, None], last >> level[:, None]
    # List the blocks of each piece: its corners, without those that share a block with an earlier one.
    piece, x, y = [], [], []
    for east in (False, True):
        for north in (False, True):
            own = ((high[:, 0] > low[:, 0]) | (not east)) & ((high[:, 1] > low[:, 1]) | (not north))
            piece.append(np.flatnonzero(own))
            x.append((high if east else low)[own, 0])
            y.append((high if north else low)[own, 1])
    blocks = np.concatenate(piece)
    # Repeat each block for each term of its piece.
    terms = np.diff(sample.post_offsets)[blocks]
    row = np.repeat(np.arange(len(blocks)), terms)
    within = np.arange(len(row)) - np.repeat(np.cumsum(terms) - terms, terms)
    term = np.searchsorted(posted, sample.post_terms[sample.post_offsets[blocks[row]] + within])
    keys = block_key(term, level[blocks[row]], np.concatenate(x)[row], np.concatenate(y)[row])
    order = np.argsort(keys, kind="stable")
    return keys[order], blocks[row][order].astype(np.int32), distinct_values(level)
