"""The sample that planners and the load model get, as arrays, and its counts of objects by raster cell and term.

A plan places subscriptions one by one by the counts. They are frozen when the plan is made, so a subscription costs the
same whenever it is placed. P(word) of DkM-SKS (section 3.1) is the count of a word over the count of all objects, P(R)
and P(R, word) (Equations 2 and 4) are those of the cells that a rectangle covers. All costs have the count of all
objects as their divisor, so counts serve as costs. Departure from the paper, which counts objects inside of the exact
rectangle: a rectangle is rounded out to the cells.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pststream.base import names
from pststream.base.arrays import distinct_values, find_among, read_only
from pststream.plans.plan import DispatchGrid

KERNEL_COLUMNS = ("lon", "lat", "terms", "post_terms")
"""Columns that come from Arrow or NumPy."""

POSTING_READS = 64
"""Units of `reads` that a posting counts as: a match may count as less than a posting."""


@dataclass(frozen=True)
class SampledQuestions:
    """Logged questions of the kinds `range` and `knn`.

    boxes         float64[n, 4]  west, south, east, north of each of the (one or two) boxes of each question
    word_offsets  int64[n+1]     slice of `words` of each box
    words         int64[m]       distinct term ids of the keywords of its question, ascending inside a box
    """

    boxes: np.ndarray
    word_offsets: np.ndarray
    words: np.ndarray


@dataclass(frozen=True)
class WorkloadSample:
    """Sampled objects and subscriptions of a period; the order of rows has no meaning. KERNEL_COLUMNS are read-only.

    lon, lat          float64[objects]    degrees
    term_offsets      int64[objects+1]    slice of `terms` of each object
    terms             int64[n]            distinct term ids of each object, ascending inside an object
    boxes             float64[pieces, 4]  west, south, east, north of each box of each live subscription
    piece_key         int64[pieces]       equal for the (one or two) boxes of one subscription
    post_offsets      int64[pieces+1]     slice of `post_terms` of each piece
    post_terms        int64[n]            terms of the clause that the piece is posted under, ascending inside a piece,
                                          the same for all pieces of a subscription
    postings          int32[n]            sampled postings that matching reads for each (object, term) of `terms`
    reads             int32[n]            the time that they take: POSTING_READS for each posting, plus the piece's
                                          `match_reads` if its box contains the object
    match_reads       int32[pieces]       time of a match of each piece, in units of `reads`; None: 0
    insertions        float               insertion requests of the period for each live subscription; 1 if the
                                          subscriptions are those that are inserted in the period, as in Definition 1
    deletions         float               deletion requests of the period for each live subscription
    object_scale      float               objects of the period for each sampled object (>= 1)
    subscription_scale float              subscriptions for each sampled subscription (>= 1)
    piece_unit        int32[pieces]       unit that the index records for each piece, -1 where none; None: nowhere
    questions         questions about the stored objects; None: none are logged
    """

    lon: np.ndarray
    lat: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray
    boxes: np.ndarray
    piece_key: np.ndarray
    post_offsets: np.ndarray
    post_terms: np.ndarray
    postings: np.ndarray
    reads: np.ndarray
    match_reads: np.ndarray | None = None
    insertions: float = 1.0
    deletions: float = 0.0
    object_scale: float = 1.0
    subscription_scale: float = 1.0
    piece_unit: np.ndarray | None = None
    questions: SampledQuestions | None = None

    def __post_init__(self) -> None:
        for name in KERNEL_COLUMNS:
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def objects(self) -> int:
        """Number of sampled objects."""
        return len(self.lon)

    @property
    def pieces(self) -> int:
        """Number of sampled boxes of subscriptions."""
        return len(self.boxes)

    @cached_property
    def subscriptions(self) -> int:
        """Number of sampled subscriptions; cached, since load adjustment reads it at each move."""
        return len(distinct_values(self.piece_key))

    @property
    def recorded_units(self) -> np.ndarray:
        """The recorded unit of each piece, -1 where there is none: int32[pieces]."""
        return np.full(self.pieces, -1, np.int32) if self.piece_unit is None else self.piece_unit

    @cached_property
    def posted_terms(self) -> np.ndarray:
        """The distinct terms of `post_terms`, ascending."""
        return distinct_values(self.post_terms)


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
        """Return the index of each term in the vocabulary, -1 for a term that no sampled object has: int64[n]."""
        index, is_known = find_among(terms, self.vocabulary[0])
        return np.where(is_known, index, -1)

    def frequency(self, terms: np.ndarray) -> np.ndarray:
        """Return the number of sampled objects with each term: int64[n]."""
        totals = np.append(0, np.cumsum(self.objects))
        borders = self.vocabulary[1]
        index = self.number_terms(terms)
        counts = totals[borders[index + 1]] - totals[borders[index]]
        return np.where(index >= 0, counts, 0)

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
