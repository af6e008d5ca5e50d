"""Estimate the index postings that each term of each sampled object reads, and add these counts to the sample."""

from dataclasses import fields
from typing import Any

import numpy as np

from pststream.base.read_only import read_only
from pststream.base.sorted_keys import distinct_values
from pststream.kernels.matching.build_segment import SORT_KEY_BITS, count_postings, directory, fill_postings
from pststream.kernels.matching.point_order import sort_points
from pststream.kernels.matching.posting_reads import count_reads
from pststream.kernels.radix_sort import sort_with
from pststream.planning.live_terms import find_positions
from pststream.plans.planner_sample import KERNEL_COLUMNS, POSTING_READS, WorkloadSample


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
    positions = find_positions(posted, columns["terms"])
    points, of_match = np.column_stack([columns["lon"], columns["lat"]]), columns.get("match_reads")
    match_reads = np.empty(0, np.int64) if of_match is None else of_match.astype(np.int64)
    given = (columns["term_offsets"], positions, *directory(keys), piece, boxes, points, POSTING_READS, match_reads)
    postings, reads = count_reads(order, codes, *given)
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
