"""Find the live terms of a sample, list who has them, sort objects by raster cell, and count the postings read."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from pststream.base.arrays import distinct_values, hash_to_unit, read_only
from pststream.base.arrow_columns import Csr
from pststream.kernels.matching.build_segment import SORT_KEY_BITS, count_postings, directory, fill_postings
from pststream.kernels.matching.index_cells import sort_points
from pststream.kernels.matching.posting_reads import ReadingObjects, ReadPostings, count_reads
from pststream.kernels.matching.postings import find_values, make_term_table
from pststream.kernels.planning.count_loads import find_live_terms, mark_objects_with_live_terms
from pststream.kernels.planning.term_runs import group_rows_by_rank
from pststream.kernels.sort_and_search import sort_with
from pststream.planning.raster import compute_cell_ranges
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import KERNEL_COLUMNS, POSTING_READS, WorkloadSample

SEED = 29


def find_posted_terms(sample: WorkloadSample) -> tuple[np.ndarray, np.ndarray]:
    """Return the terms under which the sample posts a subscription, and the position in them of each term of an object.

    Returns posted int64[T], ascending, and positions int32[len(sample.terms)], -1 for a term that is not posted.
    """
    return sample.posted_terms, find_positions(sample.posted_terms, sample.terms)


def find_positions(posted: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Return the position of each of `terms` (int64[n]) in `posted` (int64, distinct), or -1: int32[n]."""
    return np.asarray(find_values(terms, make_term_table(posted, np.arange(len(posted))))).astype(np.int32)


def mark_live_terms(sample: WorkloadSample) -> np.ndarray:
    """Mark the terms of objects under which the sample posts a subscription: bool[len(sample.terms)]."""
    return find_posted_terms(sample)[1] >= 0


def mark_live_objects(sample: WorkloadSample) -> np.ndarray:
    """Mark the objects that have a live term, and so are sent to some worker: bool[objects]."""
    return np.asarray(mark_objects_with_live_terms(sample.term_offsets, mark_live_terms(sample)))


def group_pieces_by_subscription(sample: WorkloadSample) -> tuple[np.ndarray, np.ndarray]:
    """Return an order that keeps the pieces of a subscription together, and the number of each subscription.

    Returns order int64[pieces], subscriptions int64[pieces], from 0 and ascending.
    """
    order = np.argsort(sample.piece_key, kind="stable")
    keys = sample.piece_key[order]
    return order, np.cumsum(np.diff(keys, prepend=keys[:1]) != 0)


def expect_unsampled_reads(sample: WorkloadSample) -> np.ndarray:
    """Return how many postings that the sample lacks each (object, term) reads, expected: float64[len(terms)].

    They are as many, for each sampled posting, as the objects with the term read on average.
    """
    _, term = np.unique(sample.terms, return_inverse=True)
    mean = np.bincount(term, sample.postings) / np.maximum(np.bincount(term), 1)
    return np.asarray((sample.subscription_scale - 1.0) * mean[term])


def keep_terms(sample: WorkloadSample, kept: np.ndarray) -> WorkloadSample:
    """Return a sample with only the terms that `kept` (bool[len(terms)]) marks, and the objects that have one."""
    offsets = np.append(0, np.cumsum(kept))[sample.term_offsets]
    has = np.diff(offsets) > 0
    return replace(
        sample,
        lon=sample.lon[has],
        lat=sample.lat[has],
        term_offsets=np.append(0, offsets[1:][has]),
        terms=sample.terms[kept],
        postings=sample.postings[kept],
        reads=sample.reads[kept],
    )


def drop_terms_without_postings(sample: WorkloadSample) -> WorkloadSample:
    """Return a sample without the terms under which no subscription is posted near their object.

    The filter of live terms is by place, so such an object goes to no worker for the term, while the load model counts
    a term that is posted anywhere. A term without a sampled posting nearby may have one that the sample lacks: it stays
    with a probability (Poisson), by a hash of its place in the sample, so the same sample has the same result.
    """
    by_chance = -np.expm1(-expect_unsampled_reads(sample))
    return keep_terms(sample, (sample.postings > 0) | (hash_to_unit(np.arange(len(sample.terms)), SEED) < by_chance))


@dataclass(frozen=True)
class TermUse:
    """The live terms of a sample, and the objects and subscriptions that have them; other terms cause no load.

    ids                   int64[T]                term ids, ascending; the other arrays number terms by position here
    object_offsets        int64[objects+1]        slice of `object_terms` of each object
    object_terms          int32[n]                distinct terms of each object
    reads                 int64[T]                `reads` of the objects under each term
    subscription_offsets  int64[subscriptions+1]  slice of `subscription_terms` of each subscription
    subscription_terms    int32[m]                distinct terms that each subscription is posted under
    """

    ids: np.ndarray
    object_offsets: np.ndarray
    object_terms: np.ndarray
    reads: np.ndarray
    subscription_offsets: np.ndarray
    subscription_terms: np.ndarray

    @property
    def objects(self) -> np.ndarray:
        """Number of objects that have each term: int64[T]."""
        return np.bincount(self.object_terms, minlength=len(self.ids))

    @property
    def subscriptions(self) -> np.ndarray:
        """Number of subscriptions that are posted under each term: int64[T]."""
        return np.bincount(self.subscription_terms, minlength=len(self.ids))


def collect_term_use(sample: WorkloadSample) -> TermUse:
    """List the live terms of objects and subscriptions; a subscription with two boxes counts once."""
    # Find the live terms, and number the subscriptions.
    ids, positions = find_posted_terms(sample)
    before = np.concatenate([[0], np.cumsum(positions >= 0)])
    order, groups = group_pieces_by_subscription(sample)
    subscription = np.empty(len(order), dtype=np.int64)
    subscription[order] = groups
    count = int(groups[-1]) + 1 if len(groups) else 0
    # Make the pairs (subscription, term) distinct.
    terms = max(len(ids), 1)
    posts = distinct_values(
        np.repeat(subscription, np.diff(sample.post_offsets)) * terms + np.searchsorted(ids, sample.post_terms)
    )
    return TermUse(
        ids=ids,
        object_offsets=before[sample.term_offsets],
        object_terms=positions[positions >= 0],
        reads=np.bincount(positions[positions >= 0], sample.reads[positions >= 0], len(ids)).astype(np.int64),
        subscription_offsets=np.searchsorted(posts, np.arange(count + 1) * terms),
        subscription_terms=(posts % terms).astype(np.int32),
    )


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


def make_sample_with_reads(**columns: Any) -> WorkloadSample:
    """Make a sample from all of its columns but `postings` and `reads`, and compute these two.

    The reads of an (object, term) are POSTING_READS for each of its postings, plus the `match_reads` of the piece if
    its box contains the object. The postings are those of an index segment of the sampled pieces: index
    cells of the level of the box, terms of the clause that the piece is posted under. So they are the candidates of a
    match. A sample does not have the other clauses, so each posting whose box contains the object counts as a match.
    """
    columns |= {name: read_only(columns[name]) for name in KERNEL_COLUMNS}
    # Write the postings of the sampled pieces, sorted as in a segment.
    post_offsets, post_terms = columns["post_offsets"], columns["post_terms"]
    posted = distinct_values(post_terms)
    boxes, sizes = columns["boxes"], np.diff(post_offsets)
    literals = np.searchsorted(posted, post_terms).astype(np.int32)
    count = count_postings(boxes, sizes)
    keys, piece = np.empty(count, np.int64), np.empty(count, np.int32)
    fill_postings(boxes, post_offsets[:-1], sizes, literals, keys, piece)
    keys, piece = sort_with(keys, piece, SORT_KEY_BITS)
    # Read them with the objects, in the order of their points.
    order, codes = sort_points(columns["lon"], columns["lat"])
    objects = ReadingObjects(
        order=order,
        codes=codes,
        offsets=columns["term_offsets"],
        terms=find_positions(posted, columns["terms"]),
        points=np.column_stack([columns["lon"], columns["lat"]]),
    )
    of_match = columns.get("match_reads")
    match_reads = np.empty(0, np.int64) if of_match is None else of_match.astype(np.int64)
    cells, cell_keys, key_term, key_postings = directory(keys)
    read = ReadPostings(
        cells=cells,
        cell_keys=cell_keys,
        key_term=key_term,
        key_postings=key_postings,
        piece=piece,
        boxes=boxes,
        match_reads=match_reads,
    )
    postings, reads = count_reads(objects, read, POSTING_READS)
    return WorkloadSample(**columns, postings=postings, reads=reads)


def keep_pieces(sample: WorkloadSample, kept: np.ndarray) -> WorkloadSample:
    """Return a sample with the same objects and only the pieces that `kept` (bool[pieces]) marks; count their reads."""
    lengths = np.diff(sample.post_offsets)
    given = (field.name for field in fields(sample) if field.name not in ("postings", "reads"))
    columns = {name: getattr(sample, name) for name in given}
    chosen = {
        "boxes": sample.boxes[kept],
        "piece_key": sample.piece_key[kept],
        "post_offsets": np.append(0, np.cumsum(lengths[kept])),
        "post_terms": sample.post_terms[np.repeat(kept, lengths)],
        "match_reads": None if sample.match_reads is None else sample.match_reads[kept],
        "piece_unit": None if sample.piece_unit is None else sample.piece_unit[kept],
    }
    return make_sample_with_reads(**columns | chosen)
