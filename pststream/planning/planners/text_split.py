"""Partition one region by text: order its terms, and cut the order into groups of about equal load for workers."""

from dataclasses import dataclass

import numpy as np

from pststream.kernels.planning.term_runs import (
    count_terms,
    cut_into_term_runs,
    find_objects_inside,
    find_pieces_touching,
    group_rows_by_rank,
    sum_by_term,
)
from pststream.planning.live_terms import SortedSample
from pststream.planning.load_model import LoadRates
from pststream.planning.planners.rectangle_cuts import Rectangle

MIN_ROWS = 500
"""Minimum number of objects and of boxes to try text on a node of N_s: fewer do not show which terms occur together."""


@dataclass(frozen=True)
class TermGroup:
    """Terms of a region that one unit serves, and the load of the unit.

    terms          int32[n]   numbers of `SortedSample.term_ids`, in the order of the cut
    objects        int        objects with one of the terms
    subscriptions  int        boxes posted under one of them
    reads          int        postings that the objects read under these terms
    load           float      seconds
    """

    terms: np.ndarray
    objects: int
    subscriptions: int
    reads: int
    load: float


class RegionTerms:
    """The objects and boxes of a region grouped by term, to be cut into term groups.

    Terms are ordered by the number of objects per box posted under them, least first (equal ones by id), and the order
    is cut into runs. So the rarest terms, which bring a worker many subscriptions and few objects, stay together. The
    most frequent terms stay together too: nearly every object has several of them, and counts once. Terms under which
    no box of the region is posted come last, where they add hardly any objects.

    PS2Stream does not say how PartitionNode cuts the terms. This order is used because Definition 1 has a product: runs
    of equal frequency keep one of its factors small, while assigning terms by frequency alone keeps neither small. The
    number of posting reads is the same in any order.
    """

    def __init__(self, rectangle: Rectangle, sample: SortedSample, only: np.ndarray | None = None) -> None:
        """Group the rows of a rectangle by term.

        only  int32[n], the terms to include; None: all
        """
        # Find the objects and boxes of the rectangle.
        box, columns = tuple(rectangle), sample.grid.columns
        objects = find_objects_inside(*box, columns, sample.cell_start, sample.object_terms[0])
        pieces = find_pieces_touching(*box, sample.ranges, sample.piece_terms[0])
        # Order the terms by objects per box.
        objects_of_term = count_terms(objects, *sample.object_terms, sample.terms)
        boxes_of_term = count_terms(pieces, *sample.piece_terms, sample.terms)
        terms = np.flatnonzero(objects_of_term + boxes_of_term) if only is None else np.sort(only)
        objects_per_box = objects_of_term[terms] / np.maximum(boxes_of_term[terms], 1e-9)
        self.terms = terms[np.argsort(objects_per_box, kind="stable")].astype(np.int32)
        # Group the rows by the rank of their terms.
        rank = np.full(sample.terms, -1, dtype=np.int32)
        rank[self.terms] = np.arange(len(self.terms))
        read = sum_by_term(objects, *sample.object_terms, sample.reads, sample.terms)
        self._reads = read[self.terms].astype(np.float64)
        self._members = (
            *group_rows_by_rank(objects, *sample.object_terms, rank, len(self.terms)),
            *group_rows_by_rank(pieces, *sample.piece_terms, rank, len(self.terms)),
        )
        self.enough = min(len(objects), len(pieces)) >= MIN_ROWS

    def cut(self, groups: int, rates: LoadRates, bound: float = np.inf) -> list[TermGroup]:
        """Return at most `groups` term groups whose greatest load is least in this order; none if it exceeds `bound`.

        There are fewer groups if there are fewer terms, or if one term alone is the greatest load.
        """
        plain = (rates.pair, rates.object, rates.subscription)
        read_seconds = rates.read * self._reads
        ends, objects, subscriptions = cut_into_term_runs(groups, float(bound), *self._members, read_seconds, plain)
        reads = np.add.reduceat(self._reads, ends[:-1]) if len(objects) and len(self.terms) else np.zeros(len(objects))
        loads = rates.load(objects.astype(np.float64), subscriptions.astype(np.float64), reads)
        if len(loads) and loads.max() > bound:
            return []
        return [
            TermGroup(self.terms[ends[i] : ends[i + 1]], int(o), int(s), int(r), float(loads[i]))
            for i, (o, s, r) in enumerate(zip(objects, subscriptions, reads))
        ]
