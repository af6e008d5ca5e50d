"""Estimate the loads and stored subscriptions of blocks of raster cells, and the checks of cells, from a sample."""

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from pststream.base.arrays import distinct_values
from pststream.base.arrow_columns import take_lists
from pststream.kernels.planning.cell_loads import (
    CellObjects,
    PostedPieces,
    block_key,
    count_block_pieces,
    count_cell_objects,
    count_checks,
    cut_into_blocks,
)
from pststream.kernels.routing.pyramid import build_pyramid
from pststream.planning.dispatch import plan_arrays
from pststream.planning.live_terms import find_posted_terms, mark_live_terms
from pststream.planning.load_model import LoadRates
from pststream.planning.raster import compute_cell_ranges, hilbert_walk
from pststream.plans.plan import DispatchGrid, PartitionPlan
from pststream.plans.planner_sample import WorkloadSample


@dataclass(frozen=True)
class BlockLoads:
    """All raster cells in which a worker has a unit, in blocks of neighbours.

    offsets        int64[n+1]  slice of `cells` of each block
    cells          int64[k]    raster cells, ascending in a block
    objects        int64[n]    sampled objects in the block that go to the worker
    subscriptions  int64[n]    sampled boxes that overlap the block and that the worker stores, each once
    loads          float64[n]  seconds of the period that the worker would lose with the block alone
    """

    offsets: np.ndarray
    cells: np.ndarray
    objects: np.ndarray
    subscriptions: np.ndarray
    loads: np.ndarray

    def cells_of(self, blocks: np.ndarray) -> np.ndarray:
        """Return the cells of some blocks (int64[m], ascending): int64, ascending."""
        return np.sort(np.concatenate([self.cells[self.offsets[b] : self.offsets[b + 1]] for b in blocks.tolist()]))


def compute_block_loads(
    sample: WorkloadSample, plan: PartitionPlan, rates: LoadRates, worker: int, count: int
) -> BlockLoads:
    """Cut the cells of a worker into about `count` blocks, runs of the Hilbert curve with equal objects.

    Departure from PS2Stream section V-A, which moves single cells: its dispatch index has 64 x 64 cells, ours has 64
    times as many. A sample says little about such a small cell: most cells with objects in the sample have none in the
    next batch, so moving them would move no load. A block also includes the cells between them. Moreover, the
    subscriptions of single cells overlap many other cells, so nearly all of these subscriptions would be copied.

    A box over several blocks counts in each, as in the paper a box over several cells does. The load of a worker has
    the pairs of all its objects and subscriptions, so the block takes off its own pairs, which are its load in
    Definition 3 of the paper, and also those of its rows with the rest of the worker.
    """
    # Count the objects and reads of each raster cell.
    arrays, grid = plan_arrays(plan), plan.grid
    terms = (sample.term_offsets, sample.terms, mark_live_terms(sample), sample.reads)
    objects, reads = count_cell_objects(grid.cell(sample.lon, sample.lat), *terms, arrays, worker)
    cells = _walk_cells(plan, worker)
    # Cut the curve by objects, or by cells if there are no objects.
    weights = objects[cells] if objects.any() else np.ones(len(cells), np.int64)
    block = cut_into_blocks(weights, max(1, int(weights.sum()) // count))
    blocks = int(block[-1]) + 1 if len(block) else 0
    order = np.lexsort((cells, block))
    # Count the pieces of each block.
    # Cells of one leaf and one block have one code; all cells without a block have the last code.
    pairs, code = np.unique(block * plan.leaves + plan.cell_leaf[cells], return_inverse=True)
    codes, code_block = np.full(grid.cells, len(pairs), np.int32), pairs // plan.leaves
    codes[cells] = code
    pyramid = build_pyramid(codes, grid.columns, grid.rows, len(pairs) + 1)
    posts = (compute_cell_ranges(grid, sample.boxes), sample.post_offsets, sample.post_terms)
    pieces = partial(count_block_pieces, *posts, arrays, worker, pyramid, pairs % plan.leaves)
    subscriptions = pieces(code_block, blocks)
    sums = [np.bincount(block, counts[cells], blocks) for counts in (objects, reads)]
    loads = rates.load(sums[0], subscriptions.astype(np.float64), sums[1])
    # Add the pairs that the rows of a block make with the other rows of the worker.
    if rates.pair:
        rest = pieces(np.zeros_like(code_block), 1) - subscriptions
        loads = loads + rates.pair * (sums[0] * rest + subscriptions * (sums[0].sum() - sums[0]))
    return BlockLoads(
        offsets=np.append(0, np.cumsum(np.bincount(block, minlength=blocks))),
        cells=cells[order],
        objects=sums[0].astype(np.int64),
        subscriptions=subscriptions,
        loads=loads,
    )


def _walk_cells(plan: PartitionPlan, worker: int) -> np.ndarray:
    """Return the raster cells in which the worker has a unit, along the curve."""
    mine = np.zeros(plan.leaves, bool)
    whole = np.flatnonzero(plan.leaf_unit >= 0)
    mine[whole] = plan.unit_worker[plan.leaf_unit[whole]] == worker
    for offsets, units in ((plan.term_offsets, plan.term_unit), (plan.spread_offsets, plan.spread_unit)):
        leaf = np.repeat(np.arange(plan.leaves), np.diff(offsets))
        mine[leaf[plan.unit_worker[units] == worker]] = True
    curve = _curve(plan.grid.columns, plan.grid.rows)
    return curve[mine[plan.cell_leaf[curve]]]


@lru_cache(maxsize=1)
def _curve(columns: int, rows: int) -> np.ndarray:
    """Return the cells of a raster along the curve: int64[cells]. An adjustment walks the same raster many times."""
    column, row = hilbert_walk(columns, rows)
    curve: np.ndarray = row * columns + column
    curve.flags.writeable = False
    return curve


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
            CellObjects(
                column=grid.cell_x(sample.lon),
                row=grid.cell_y(sample.lat),
                offsets=live[sample.term_offsets],
                terms=positions[positions >= 0],
            ),
            PostedPieces(
                keys=keys,
                term_start=np.searchsorted(keys, block_key(np.arange(len(posted) + 1), 0, 0, 0)),
                pieces=pieces,
                levels=levels,
                ranges=ranges,
                subscription=np.unique(sample.piece_key, return_inverse=True)[1],
            ),
            grid.columns,
            grid.rows,
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
    row = np.repeat(np.arange(len(blocks)), np.diff(sample.post_offsets)[blocks])
    term = np.searchsorted(posted, take_lists((sample.post_offsets, sample.post_terms), blocks)[1])
    keys = block_key(term, level[blocks[row]], np.concatenate(x)[row], np.concatenate(y)[row])
    order = np.argsort(keys, kind="stable")
    return keys[order], blocks[row][order].astype(np.int32), distinct_values(level)
