"""Estimate the workload of a rectangle by SSTD's cost model, from the query distribution statistics of a sample."""

from dataclasses import dataclass

import numpy as np

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.arrow_columns import Csr, take_lists
from pststream.kernels.matching.postings import make_term_table
from pststream.kernels.planning.count_loads import find_live_terms
from pststream.planning.live_terms import SortedSample, sort_sample
from pststream.planning.raster import compute_cell_ranges
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample


@dataclass(frozen=True)
class NodeRows:
    """The sampled rows in a rectangle of raster cells.

    objects  int64[n]  objects with a live term that lie in it, by their place in the sorted sample
    pieces   int64[m]  posted boxes of subscriptions that touch it
    asked    int64[k]  boxes of questions that touch it
    """

    objects: np.ndarray
    pieces: np.ndarray
    asked: np.ndarray


@dataclass(frozen=True)
class QueryStatistics:
    """The query distribution statistics of a sample.

    sample        objects sorted by raster cell, and the boxes of subscriptions
    whole         the rows of the whole raster
    words         int64[w]                   ids of the keywords of questions, ascending
    object_words  int64[objects+1], int32[n] which of them each object of `sample` has, by their place in `words`
    asked_ranges  int32[questions, 4]        raster cells of the box of each question
    keywords      int64[questions+1], int32[m]  its keywords, by their place in `words`
    queries       int64[l+1]                 number of questions that have 0, 1, .. keywords
    """

    sample: SortedSample
    whole: NodeRows
    words: np.ndarray
    object_words: Csr
    asked_ranges: np.ndarray
    keywords: Csr
    queries: np.ndarray

    def count_keywords(self, rows: NodeRows) -> np.ndarray:
        """Return the number of the questions that have each word as a keyword: int64[w]."""
        return np.bincount(take_lists(self.keywords, rows.asked)[1], minlength=len(self.words))

    def inside(self, rows: NodeRows, x0: int, y0: int, x1: int, y1: int) -> NodeRows:
        """Return those of the rows that belong to a rectangle, by first and last column and row, inclusive."""
        column, row = self.sample.column[rows.objects], self.sample.row[rows.objects]
        lies = (column >= x0) & (column <= x1) & (row >= y0) & (row <= y1)
        touching = []
        for ranges, own in ((self.sample.ranges, rows.pieces), (self.asked_ranges, rows.asked)):
            west, south, east, north = ranges[own].T
            touching.append(own[(west <= x1) & (east >= x0) & (south <= y1) & (north >= y0)])
        return NodeRows(rows.objects[lies], *touching)

    def workload(self, rows: NodeRows) -> float:
        """Compute the workload of the rectangle that has these rows: objects that a random query checks.

        With |O| its objects, H the share of its query keywords that its objects have, Pr(l) the share of questions with
        l keywords, and p the share of all queries that are questions, or subscriptions, that touch it, this is

            p(questions) |O| sum(Pr(l) H^l)  +  p(subscriptions) |O|

        Source: SSTD, section 4.1.1, Equations 1 and 2: the first term is W_srq and W_skq, the second W_crq and W_ckq.
        Departures:

        - Questions of the kinds `range` and `knn` have one distribution of keywords between them.
        - The queries that touch the rectangle are counted (the paper: read from a cell of a quadtree of statistics).
        - If none are logged, `range` and `knn` subscriptions stand for them as well, so each is half of the queries.
          Their keywords are then the words that they are posted under, as a sample has no others. A subscription
          without keywords has none, though it is posted under a term of its own.
        - Questions and subscriptions of other kinds are left out, as they do not run on the units of a plan. (Neither
          do questions of these two kinds, but they are what the paper divides the objects by text for.)
        - A `knn` subscription belongs to the rectangles that its circle touches (the paper: to all).
        - The objects that arrive in the life of a subscription are those of the sample, for every subscription.
        - Objects without a live term, which no worker gets, do not count.
        """
        counted = len(self.whole.pieces) + len(self.whole.asked)
        if not counted:
            return 0.0
        asked = self.count_keywords(rows)
        present = np.zeros(len(self.words), bool)
        present[take_lists(self.object_words, rows.objects)[1]] = True
        known = float(asked[present].sum()) / max(int(asked.sum()), 1)
        shares = self.queries / max(int(self.queries.sum()), 1)
        covered = float((shares * known ** np.arange(len(self.queries))).sum())
        return len(rows.objects) * (len(rows.asked) * covered + len(rows.pieces)) / counted


def collect_query_statistics(sample: WorkloadSample, grid: DispatchGrid) -> QueryStatistics:
    """Collect the statistics of a sample over a raster."""
    rows = sort_sample(sample, grid)
    offsets, terms = rows.piece_terms
    posted = np.flatnonzero(np.diff(offsets) > 0)
    objects = np.flatnonzero(np.diff(rows.object_terms[0]) > 0)
    if (questions := sample.questions) is not None:
        words = distinct_values(questions.words)
        table = make_term_table(words, np.arange(len(words)))
        by_cell = np.argsort(grid.cell(sample.lon, sample.lat), kind="stable")
        own = find_live_terms(by_cell, sample.term_offsets, sample.terms, table)[:2]
        keywords = questions.word_offsets, np.searchsorted(words, questions.words)
        ranges, asked = compute_cell_ranges(grid, questions.boxes), np.arange(len(questions.boxes))
    else:
        is_word = rows.term_ids[terms] != names.EVERY_OBJECT
        words, own, ranges, asked = rows.term_ids, rows.object_terms, rows.ranges, posted
        keywords = np.append(0, np.cumsum(is_word))[offsets], terms[is_word]
    queries = np.bincount(np.diff(keywords[0])[asked], minlength=1)
    return QueryStatistics(rows, NodeRows(objects, posted, asked), words, own, ranges, keywords, queries)
