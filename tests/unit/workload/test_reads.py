"""Postings that a sample's objects read, against looking at each pair."""

import numpy as np
from hypothesis import given, settings

from pststream.domain.workload import WorkloadSample
from pststream.kernels.cells import MAX_LEVEL, column_of, level_of_box, row_of
from pststream.workload.reads import with_pieces
from tests.plans import make_sample, samples, unpack


def holds_cell_of(box: tuple[float, float, float, float], lon: float, lat: float) -> bool:
    """Whether the box covers the point's cell on the level that boxes of its size are indexed on."""
    shift = MAX_LEVEL - level_of_box(*box)
    x, y = column_of(lon) >> shift, row_of(lat) >> shift
    west, south, east, north = column_of(box[0]), row_of(box[1]), column_of(box[2]), row_of(box[3])
    return west >> shift <= x <= east >> shift and south >> shift <= y <= north >> shift


@settings(max_examples=100, deadline=None)
@given(samples())
def test_equals_looking_at_each_pair(sample: WorkloadSample) -> None:
    posts = unpack(sample.post_offsets, sample.post_terms)
    found = [
        [
            sum(term in post and holds_cell_of(tuple(box), x, y) for box, post in zip(sample.boxes.tolist(), posts))
            for term in terms
        ]
        for x, y, terms in zip(sample.lon, sample.lat, unpack(sample.term_offsets, sample.terms))
    ]
    assert unpack(sample.term_offsets, sample.reads) == found


def test_boxes_of_all_sizes_are_read() -> None:
    boxes = [(-180, -90, 180, 90), (17, 58, 19, 60), (18.0, 59.0, 18.001, 59.001), (100, 0, 101, 1)]
    sample = make_sample([(18.0005, 59.0005)], [[1, 2]], boxes, [[1], [1], [1, 2], [1]])
    assert sample.reads.tolist() == [3, 1]
    assert sample.reads.dtype == np.int32


@settings(max_examples=50, deadline=None)
@given(samples())
def test_the_reads_of_two_parts_are_those_of_the_whole(sample: WorkloadSample):
    kept = np.arange(sample.pieces) % 3 == 0
    part, rest = with_pieces(sample, kept), with_pieces(sample, ~kept)
    assert part.pieces + rest.pieces == sample.pieces and part.objects == sample.objects
    assert (part.reads + rest.reads == sample.reads).all()
    assert unpack(part.post_offsets, part.post_terms) == unpack(sample.post_offsets, sample.post_terms)[::3]
