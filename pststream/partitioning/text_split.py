"""Partitioning a region by text: its terms in runs of one order, a run a part."""

from dataclasses import dataclass

import numpy as np

from pststream.cost.load_model import LoadRates
from pststream.kernels.planning.term_runs import (
    add_terms,
    count_terms,
    cut_terms,
    members_by_rank,
    objects_inside,
    pieces_touching,
)
from pststream.partitioning.rectangle_cuts import Rectangle
from pststream.samples.sorted_sample import Postings

LEAST = 500
"""Objects, and boxes, of a region below which N_s nodes are not tried by text: too few tell which terms go together."""


@dataclass(frozen=True)
class TextPart:
    """Terms of a region that one part serves, and what that makes of it.

    terms          int32[n]   numbers of `Postings.term_ids`, in the order of the cut
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


class TextNode:
    """The objects and boxes of a region by term, ready to be cut.

    Terms are ordered by the objects that have them for each box posted under them, fewest first (equal ones by id), and
    cut into runs. So the rarest terms, which bring a worker many subscriptions and few objects, go together, as do the
    most frequent, which nearly each object has: an object with several of those counts once. Terms that no box of the
    region is posted under come last, where they bring no object that is not there.

    PS2Stream does not say how PartitionNode cuts the terms. Taken here because Definition 1 has a product: runs of one
    frequency keep one of its factors small, dealing terms by frequency alone keeps neither. What the objects read is
    the same in any order.
    """

    def __init__(self, rectangle: Rectangle, postings: Postings, only: np.ndarray | None = None) -> None:
        """`only`: int32[n], the terms to look at; None: all."""
        box, columns = tuple(rectangle), postings.grid.columns
        objects = objects_inside(*box, columns, postings.cell_start, postings.object_terms[0])
        pieces = pieces_touching(*box, postings.ranges, postings.piece_terms[0])
        said = count_terms(objects, *postings.object_terms, postings.terms)
        asked = count_terms(pieces, *postings.piece_terms, postings.terms)
        terms = np.flatnonzero(said + asked) if only is None else np.sort(only)
        each = said[terms] / np.maximum(asked[terms], 1e-9)
        self.terms = terms[np.argsort(each, kind="stable")].astype(np.int32)
        rank = np.full(postings.terms, -1, dtype=np.int32)
        rank[self.terms] = np.arange(len(self.terms))
        read = add_terms(objects, *postings.object_terms, postings.reads, postings.terms)
        self._reads = read[self.terms].astype(np.float64)
        self._members = (
            *members_by_rank(objects, *postings.object_terms, rank, len(self.terms)),
            *members_by_rank(pieces, *postings.piece_terms, rank, len(self.terms)),
        )
        self.enough = min(len(objects), len(pieces)) >= LEAST

    def cut(self, parts: int, rates: LoadRates, bound: float = np.inf) -> list[TextPart]:
        """At most `parts` parts, the greatest load as small as it can be in this order; none if that exceeds `bound`.

        Fewer parts where there are fewer terms, or where one term alone is the greatest load.
        """
        plain = (rates.pair, rates.object, rates.subscription)
        read_seconds = rates.posting * self._reads
        ends, objects, subscriptions = cut_terms(parts, float(bound), *self._members, read_seconds, plain)
        reads = np.add.reduceat(self._reads, ends[:-1]) if len(objects) and len(self.terms) else np.zeros(len(objects))
        loads = rates.load(objects.astype(np.float64), subscriptions.astype(np.float64), reads)
        if len(loads) and loads.max() > bound:
            return []
        return [
            TextPart(self.terms[ends[i] : ends[i + 1]], int(o), int(s), int(r), float(loads[i]))
            for i, (o, s, r) in enumerate(zip(objects, subscriptions, reads))
        ]
