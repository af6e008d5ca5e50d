"""Estimate the workload of a rectangle by SSTD's cost model, from the query distribution statistics of a sample."""

from dataclasses import dataclass

import numpy as np

from pststream.domain.plan import DispatchGrid
from pststream.domain.planner_sample import WorkloadSample
from pststream.samples.sorted_sample import Csr, SortedSample, sort_sample


@dataclass(frozen=True)
class NodeRows:
    """The sampled rows in a rectangle of raster cells.

    objects  int64[n]  objects with a live term that lie in it, by their place in the sorted sample
    pieces   int64[m]  posted boxes that touch it
    """

    objects: np.ndarray
    pieces: np.ndarray


@dataclass(frozen=True)
class QueryStatistics:
    """The query distribution statistics of a sample.

    sample      objects sorted by raster cell, and the boxes of subscriptions
    whole       the rows of the whole raster
    word_share  float64[l+1]  share of the boxes that are posted under 0, 1, .. words
    """

    sample: SortedSample
    whole: NodeRows
    word_share: np.ndarray

    def inside(self, rows: NodeRows, x0: int, y0: int, x1: int, y1: int) -> NodeRows:
        """Return those of the rows that belong to a rectangle, by first and last column and row, inclusive."""
        column, row = self.sample.column[rows.objects], self.sample.row[rows.objects]
        lies = (column >= x0) & (column <= x1) & (row >= y0) & (row <= y1)
        west, south, east, north = self.sample.ranges[rows.pieces].T
        touches = (west <= x1) & (east >= x0) & (south <= y1) & (north >= y0)
        return NodeRows(rows.objects[lies], rows.pieces[touches])

    def workload(self, rows: NodeRows) -> float:
        """Compute the workload of the rectangle that has these rows: objects that a random query checks.

        With p the share of the boxes that touch the rectangle, |O| its objects, H the share of its query keywords that
        its objects have, and Pr(l) the share of queries with l keywords, this is

            1/2 p |O| sum(Pr(l) H^l)  +  1/2 p |O|

        Source: SSTD, section 4.1.1, Equations 1 and 2: the first term is W_srq, the second W_crq. Departures:

        - Questions do not run on the units of a plan, so none are counted. `range` and `knn` subscriptions stand for
          the SRQ and SKQ of Equation 2 as well as for its CRQ and CKQ, each half of the queries. A `knn` subscription
          belongs to the rectangles that its circle touches (the paper: to all).
        - The keywords of a query are the words that it is posted under, as a sample has no others.
        - The objects that arrive in the life of a subscription are those of the sample, for every subscription.
        - Objects without a live term, which no worker gets, do not count.
        """
        posted = len(self.whole.pieces)
        if not posted:
            return 0.0
        asked = np.bincount(_take(self.sample.piece_terms, rows.pieces), minlength=self.sample.terms)
        present = np.zeros(self.sample.terms, bool)
        present[_take(self.sample.object_terms, rows.objects)] = True
        known = float(asked[present].sum()) / max(int(asked.sum()), 1)
        covered = float((self.word_share * known ** np.arange(len(self.word_share))).sum())
        return len(rows.pieces) / posted * len(rows.objects) * (covered + 1.0) / 2.0


def collect_query_statistics(sample: WorkloadSample, grid: DispatchGrid) -> QueryStatistics:
    """Collect the statistics of a sample over a raster."""
    rows = sort_sample(sample, grid)
    words = np.diff(rows.piece_terms[0])
    posted = np.flatnonzero(words > 0)
    share = np.bincount(words[posted]) / max(len(posted), 1)
    whole = NodeRows(np.flatnonzero(np.diff(rows.object_terms[0]) > 0), posted)
    return QueryStatistics(rows, whole, share)


def _take(lists: Csr, rows: np.ndarray) -> np.ndarray:
    """Return the values of some rows of a CSR, one row after another."""
    offsets, values = lists
    lengths = np.diff(offsets)[rows]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return values[np.repeat(offsets[rows], lengths) + within]
