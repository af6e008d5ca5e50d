"""The posting reads of a sample against a check of each pair."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.planning.live_terms import keep_pieces
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample
from tests.oracles.posting_reads import weight
from tests.plans import make_sample, samples, unpack


@settings(max_examples=100, deadline=None)
@given(samples(), st.sampled_from([(0,), (1, 29), (29, 7 * POSTING_READS, 0)]))
def test_equals_a_check_of_each_pair(drawn: WorkloadSample, of_matches: tuple[int, ...]) -> None:
    match_reads = np.resize(of_matches, drawn.pieces).astype(np.int32)
    sample = keep_pieces(replace(drawn, match_reads=match_reads), np.ones(drawn.pieces, bool))
    pieces = list(
        zip(sample.boxes.tolist(), match_reads.tolist(), unpack(sample.post_offsets, sample.post_terms), strict=True)
    )
    expected = [
        [sum(weight(tuple(box), x, y, reads) for box, reads, post in pieces if term in post) for term in terms]
        for x, y, terms in zip(sample.lon, sample.lat, unpack(sample.term_offsets, sample.terms))
    ]
    assert unpack(sample.term_offsets, sample.reads) == expected
    without = keep_pieces(replace(sample, match_reads=None), np.ones(drawn.pieces, bool))
    assert without.reads.tolist() == (POSTING_READS * sample.postings).tolist()


def test_many_boxes_are_estimated_from_some() -> None:
    boxes = [(18.0, 59.0, 18.01, 59.01 if number % 3 else 59.005) for number in range(1000)]
    match_reads = np.full(1000, 3 * POSTING_READS, np.int32)
    sample = make_sample([(18.005, 59.007)], [[1]], boxes, [[1]] * 1000, match_reads=match_reads)
    assert sample.reads.tolist() == [pytest.approx((1000 + 3 * 667) * POSTING_READS, rel=0.05)]


def test_boxes_of_all_sizes_are_read() -> None:
    boxes = [(-180, -90, 180, 90), (17, 58, 19, 60), (18.0, 59.0, 18.001, 59.001), (100, 0, 101, 1)]
    sample = make_sample([(18.0005, 59.0005)], [[1, 2]], boxes, [[1], [1], [1, 2], [1]])
    assert sample.reads.tolist() == [3 * POSTING_READS, POSTING_READS]
    assert sample.postings.tolist() == [3, 1]
    assert sample.reads.dtype == sample.postings.dtype == np.int32


@settings(max_examples=50, deadline=None)
@given(samples())
def test_reads_of_two_parts_add_up(drawn: WorkloadSample):
    match_reads = np.arange(drawn.pieces, dtype=np.int32)
    kept = match_reads % 3 == 0
    sample = keep_pieces(replace(drawn, match_reads=match_reads), np.ones(drawn.pieces, bool))
    part, rest = keep_pieces(sample, kept), keep_pieces(sample, ~kept)
    assert part.pieces + rest.pieces == sample.pieces and part.objects == sample.objects
    assert (part.reads + rest.reads == sample.reads).all()
    assert (part.postings + rest.postings == sample.postings).all()
    assert unpack(part.post_offsets, part.post_terms) == unpack(sample.post_offsets, sample.post_terms)[::3]
