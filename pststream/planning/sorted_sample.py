"""Sort a sample's objects by raster cell and number its live terms, for the hybrid planner and local adjustment."""

from dataclasses import dataclass

import numpy as np

from pststream.base.arrow_columns import Csr
from pststream.base.sorted_keys import distinct_values
from pststream.kernels.matching.term_table import make_term_table
from pststream.kernels.planning.count_loads import find_live_terms
from pststream.kernels.planning.term_runs import group_rows_by_rank
from pststream.planning.raster_ranges import compute_cell_ranges
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample


@dataclass(frozen=True)
class SortedSample:
    """The objects, boxes and live terms of a sample, objects sorted by raster cell.

    Live terms are numbered from 0 in the order of their ids; all other terms are left out.

    grid          the raster
    term_ids      int64[terms]        ids, ascending
    cell_start    int64[cells+1]      slice of the objects of each raster cell
    column, row   int32[objects]      raster cell of each object
    object_terms  int64[objects+1], int32[n]    terms of each object
    reads         int32[n]            sampled postings read under each term of each object
    ranges        int32[pieces, 4]    first column, first row, last column, last row of each box, in raster cells
    piece_terms   int64[pieces+1], int32[m]     posting terms of each box
    """

    grid: DispatchGrid
    term_ids: np.ndarray
    cell_start: np.ndarray
    column: np.ndarray
    row: np.ndarray
    object_terms: Csr
    reads: np.ndarray
    ranges: np.ndarray
    piece_terms: Csr

    @property
    def terms(self) -> int:
        """Number of live terms."""
        return len(self.term_ids)

    def by_term(self) -> tuple[Csr, Csr]:
        """Return the objects that have each term, and the boxes posted under it: int64[terms+1], int32[n] twice."""
        rank = np.arange(self.terms, dtype=np.int32)
        sides = []
        for start, terms in (self.object_terms, self.piece_terms):
            sides.append(group_rows_by_rank(np.arange(len(start) - 1, dtype=np.int32), start, terms, rank, self.terms))
        return sides[0], sides[1]


def sort_sample(sample: WorkloadSample, grid: DispatchGrid) -> SortedSample:
    """Sort a sample by the cells of a raster; the result takes about as much memory as the sample."""
    # Number the live terms.
    term_ids = distinct_values(sample.post_terms)
    table = make_term_table(term_ids, np.arange(len(term_ids)))
    # Sort the objects by raster cell, and keep their live terms.
    cells = grid.cell(sample.lon, sample.lat)
    order = np.argsort(cells, kind="stable")
    start, object_terms, origin = find_live_terms(order, sample.term_offsets, sample.terms, table)
    # Replace the posting terms of the boxes by their numbers.
    pieces = np.arange(sample.pieces)
    piece_start, piece_terms, _ = find_live_terms(pieces, sample.post_offsets, sample.post_terms, table)
    cells = cells[order]
    return SortedSample(
        grid=grid,
        term_ids=term_ids,
        cell_start=np.searchsorted(cells, np.arange(grid.cells + 1)),
        column=(cells % grid.columns).astype(np.int32),
        row=(cells // grid.columns).astype(np.int32),
        object_terms=(start, object_terms),
        reads=sample.reads[origin],
        ranges=compute_cell_ranges(grid, sample.boxes),
        piece_terms=(piece_start, piece_terms),
    )
