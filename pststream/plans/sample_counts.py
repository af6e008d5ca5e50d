"""Count the sampled objects by raster cell and term: the numbers by which a plan places subscriptions one by one.

They are frozen when the plan is made, so a subscription costs the same whenever it is placed. P(word) of DkM-SKS
(section 3.1) is the count of a word over the count of all objects, P(R) and P(R, word) (Equations 2 and 4) are those of
the cells that a rectangle covers. All costs have the count of all objects as their divisor, so counts serve as costs.

Departure from the paper, which counts objects inside of the exact rectangle: a rectangle is rounded out to the cells.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pststream.base import names
from pststream.base.sorted_keys import find_among
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample


@dataclass(frozen=True)
class SampleCounts:
    """Counts of sampled objects over a raster of `columns` x `rows` cells, sorted by term and cell.

    terms int64[n], cells int64[n], objects int64[n]: the objects of a cell with a term; names.EVERY_OBJECT counts all
    object_scale: stored objects for each sampled one
    """

    columns: int
    rows: int
    terms: np.ndarray
    cells: np.ndarray
    objects: np.ndarray
    object_scale: float = 1.0

    @cached_property
    def vocabulary(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct terms int64[t], ascending, and where the entries of each begin and end: int64[t+1]."""
        terms, starts = np.unique(self.terms, return_index=True)
        return terms, np.append(starts, len(self.terms))

    @cached_property
    def sums(self) -> np.ndarray:
        """The objects in the first y rows and x columns, at [y, x]: int64[rows+1, columns+1]."""
        every = self.terms == names.EVERY_OBJECT
        cells = np.bincount(self.cells[every], self.objects[every], self.columns * self.rows).astype(np.int64)
        sums = np.zeros((self.rows + 1, self.columns + 1), np.int64)
        sums[1:, 1:] = cells.reshape(self.rows, self.columns).cumsum(0).cumsum(1)
        return sums

    def number_terms(self, terms: np.ndarray) -> np.ndarray:
        """Return the place of each term in the vocabulary, -1 for a term that no sampled object has: int64[n]."""
        place, is_known = find_among(terms, self.vocabulary[0])
        return np.where(is_known, place, -1)

    def frequency(self, terms: np.ndarray) -> np.ndarray:
        """Return the number of sampled objects with each term: int64[n]."""
        totals = np.append(0, np.cumsum(self.objects))
        borders = self.vocabulary[1]
        place = self.number_terms(terms)
        counts = totals[borders[place + 1]] - totals[borders[place]]
        return np.where(place >= 0, counts, 0)

    def objects_in(self, ranges: np.ndarray) -> np.ndarray:
        """Return the number of sampled objects in each range of cells: int64[n].

        ranges  int32[n, 4]  first column, first row, last column, last row
        """
        x0, y0, x1, y1 = ranges.T
        sums = self.sums
        return sums[y1 + 1, x1 + 1] - sums[y0, x1 + 1] - sums[y1 + 1, x0] + sums[y0, x0]


def count_sample(sample: WorkloadSample, grid: DispatchGrid) -> SampleCounts:
    """Count the objects of a sample over the raster of a plan."""
    cell = grid.cell(sample.lon, sample.lat)
    of_terms = np.repeat(cell, np.diff(sample.term_offsets))
    is_word = sample.terms != names.EVERY_OBJECT
    pairs = np.column_stack(
        [
            np.concatenate([sample.terms[is_word], np.full(len(cell), names.EVERY_OBJECT)]),
            np.concatenate([of_terms[is_word], cell]),
        ]
    ).astype(np.int64)
    order = np.lexsort(pairs.T[::-1])
    pairs = pairs[order]
    first = np.flatnonzero(np.append(True, (pairs[1:] != pairs[:-1]).any(axis=1))) if len(pairs) else order
    objects = np.diff(np.append(first, len(pairs))).astype(np.int64)
    return SampleCounts(grid.columns, grid.rows, pairs[first, 0], pairs[first, 1], objects, sample.object_scale)
