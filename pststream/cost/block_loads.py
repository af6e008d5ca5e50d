"""The load of blocks of cells of a worker: what phase II of local adjustment moves."""

from dataclasses import dataclass

import numpy as np

from pststream.cost.load_model import LoadRates
from pststream.domain.plan import PartitionPlan
from pststream.domain.planner_sample import WorkloadSample
from pststream.kernels.planning.block_loads import count_block_pieces, cut_into_blocks
from pststream.kernels.planning.cell_loads import count_cell_objects
from pststream.kernels.routing.dispatch import PlanArrays
from pststream.kernels.routing.pyramid import build_pyramid
from pststream.samples.matched_terms import mark_live_terms
from pststream.samples.raster_ranges import cell_ranges
from pststream.space.hilbert import hilbert_rank


@dataclass(frozen=True)
class BlockLoads:
    """All cells in which a worker serves something, as blocks of neighbours.

    offsets        int64[n+1]  slice of `cells` of each block
    cells          int64[k]    cells of the raster, ascending in a block
    objects        int64[n]    sampled objects in the block that go to the worker
    subscriptions  int64[n]    sampled boxes over the block that the worker stores, each once
    loads          float64[n]  seconds of the period
    """

    offsets: np.ndarray
    cells: np.ndarray
    objects: np.ndarray
    subscriptions: np.ndarray
    loads: np.ndarray

    def cells_of(self, blocks: np.ndarray) -> np.ndarray:
        """The cells of some blocks (int64[m], ascending): int64, ascending."""
        return np.sort(np.concatenate([self.cells[self.offsets[b] : self.offsets[b + 1]] for b in blocks.tolist()]))


def block_loads(sample: WorkloadSample, plan: PartitionPlan, rates: LoadRates, worker: int, parts: int) -> BlockLoads:
    """The cells of a worker as about so many blocks: runs of the Hilbert curve through them, each as long as it takes
    to hold its share of the objects.

    Departure from PS2Stream section V-A, which moves single cells: its dispatch index has 64 x 64 of them, ours 64
    times as many. Of so small a cell a sample knows little; the cells with objects in the sample are for the most part
    not those of the next batch, so their load would stay where it is. A block takes the cells between them along. And
    the subscriptions of cells that are chosen one by one lie over many others, so that nearly all of them are copied.

    A box over several blocks counts in each, as the paper counts one over several cells.
    """
    arrays = PlanArrays(*(getattr(plan, name) for name in PlanArrays._fields))
    grid = plan.grid
    terms = (sample.term_offsets, sample.terms, mark_live_terms(sample), sample.reads)
    objects, reads = count_cell_objects(grid.cell(sample.lon, sample.lat), *terms, arrays, worker)
    cells = _walk(plan, worker)
    # Where no object says what is near what, cells are counted.
    held = objects[cells] if objects.any() else np.ones(len(cells), np.int64)
    block = cut_into_blocks(held, max(1, int(held.sum()) // parts))
    blocks = int(block[-1]) + 1 if len(block) else 0
    order = np.lexsort((cells, block))
    codes, code_leaf, code_block = _coded(plan, cells, block)
    pyramid = build_pyramid(codes, grid.columns, grid.rows, len(code_leaf) + 1)
    ranges = cell_ranges(grid, sample.boxes)
    posts = (sample.post_offsets, sample.post_terms)
    subscriptions = count_block_pieces(ranges, *posts, arrays, worker, pyramid, code_leaf, code_block, blocks)
    sums = [np.bincount(block, counts[cells], blocks) for counts in (objects, reads)]
    return BlockLoads(
        offsets=np.append(0, np.cumsum(np.bincount(block, minlength=blocks))),
        cells=cells[order],
        objects=sums[0].astype(np.int64),
        subscriptions=subscriptions,
        loads=rates.load(sums[0], subscriptions.astype(np.float64), sums[1]),
    )


def _walk(plan: PartitionPlan, worker: int) -> np.ndarray:
    """The cells in which the worker serves something, along the curve."""
    mine = np.zeros(plan.leaves, bool)
    whole = np.flatnonzero(plan.leaf_unit >= 0)
    mine[whole] = plan.unit_worker[plan.leaf_unit[whole]] == worker
    for offsets, units in ((plan.term_offsets, plan.term_unit), (plan.spread_offsets, plan.spread_unit)):
        leaf = np.repeat(np.arange(plan.leaves), np.diff(offsets))
        mine[leaf[plan.unit_worker[units] == worker]] = True
    cells = np.flatnonzero(mine[plan.cell_leaf])
    columns, rows = plan.grid.columns, plan.grid.rows
    return cells[np.argsort(hilbert_rank(cells % columns, cells // columns, max(columns, rows)), kind="stable")]


def _coded(plan: PartitionPlan, cells: np.ndarray, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A code for each cell of the raster, the same where leaf and block are (the last one elsewhere): int32[cells]; and
    the leaf and the block of each code.
    """
    pairs, code = np.unique(block * plan.leaves + plan.cell_leaf[cells], return_inverse=True)
    codes = np.full(plan.grid.cells, len(pairs), np.int32)
    codes[cells] = code
    return codes, pairs % plan.leaves, pairs // plan.leaves
