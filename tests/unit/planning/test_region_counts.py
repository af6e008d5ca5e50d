"""Summed-area tables against counting."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pststream.planning.load_model import CostModel
from pststream.planning.region_counts import build_region_counts
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample
from tests.fuzz.cases import examples
from tests.oracles import dispatch as slow
from tests.plans import samples, unpack


@examples(100)
@given(samples(), st.integers(1, 9), st.integers(1, 9), st.data())
def test_equals_counting(sample: WorkloadSample, columns: int, rows: int, data: st.DataObject) -> None:
    grid = DispatchGrid(-10.0, 30.0, 30.0, 60.0, columns, rows)
    x0, x1 = sorted(data.draw(st.tuples(*[st.integers(0, columns - 1)] * 2)))
    y0, y1 = sorted(data.draw(st.tuples(*[st.integers(0, rows - 1)] * 2)))
    cells = {y * columns + x for y in range(y0, y1 + 1) for x in range(x0, x1 + 1)}
    posts = unpack(sample.post_offsets, sample.post_terms)
    covered = [set(slow.cells_of(grid, box)) if post else set() for box, post in zip(sample.boxes.tolist(), posts)]
    live = {term for terms in posts for term in terms}
    terms = unpack(sample.term_offsets, sample.terms)
    inside = [
        cell
        for cell, ids in zip(map(slow.cell_of, [grid] * sample.objects, sample.lon, sample.lat), terms)
        if cell in cells and live & set(ids)
    ]
    counts = build_region_counts(sample, grid)
    reads = unpack(sample.term_offsets, sample.reads)
    at = map(slow.cell_of, [grid] * sample.objects, sample.lon, sample.lat)
    assert counts.reads(x0, y0, x1, y1) == sum(sum(read) for cell, read in zip(at, reads) if cell in cells)
    assert counts.objects(x0, y0, x1, y1) == len(inside)
    assert counts.subscriptions(x0, y0, x1, y1) == sum(bool(box & cells) for box in covered)
    pairs = sum(cell in box for cell in inside for box in covered)
    together = [int(counts.objects(x0, y0, x1, y1)), pairs, int(counts.reads(x0, y0, x1, y1))]
    assert counts.objects_pairs_reads(x0, y0, x1, y1).tolist() == together
    assert counts.objects(x0, y0, x0 - 1, y1) == counts.subscriptions(x0, y0, x1, y0 - 1) == 0


@examples(20)
@given(samples())
def test_takes_arrays(sample: WorkloadSample) -> None:
    counts = build_region_counts(sample, DispatchGrid(-10.0, 30.0, 30.0, 60.0, 8, 8))
    rates = CostModel(1.0, 2.0, 3.0, 4.0, 5.0).rates(sample)
    last = np.arange(8)
    for question in (counts.objects, counts.subscriptions, counts.reads):
        assert question(0, 2, last, 5).tolist() == [int(question(0, 2, x, 5)) for x in range(8)]
    each = [counts.objects_pairs_reads(0, 2, x, 5).tolist() for x in range(8)]
    assert counts.objects_pairs_reads(0, 2, last, 5).T.tolist() == each
    assert counts.load(rates, 0, 2, last, 5).tolist() == [float(counts.load(rates, 0, 2, x, 5)) for x in range(8)]
