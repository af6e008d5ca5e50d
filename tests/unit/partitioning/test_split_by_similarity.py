"""Similarities, medians and the regions of phase one against counting the sample again for each region."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.cost.region_counts import build_region_counts
from pststream.domain.planner_sample import WorkloadSample
from pststream.partitioning import split_by_similarity
from pststream.partitioning.rectangle_cuts import Rectangle
from pststream.samples.sorted_sample import sort_sample
from tests.plans import samples, unpack
from tests.unit.partitioning.regions import GRID, inside, rectangles


def cosine(sample: WorkloadSample, node: Rectangle) -> float:
    of_objects, of_boxes = (Counter(term for terms in side for term in terms) for side in inside(sample, node))
    norms = math.sqrt(sum(n * n for n in of_objects.values()) * sum(n * n for n in of_boxes.values()))
    return sum(of_objects[term] * of_boxes[term] for term in of_objects) / norms if norms else 1.0


@settings(max_examples=60, deadline=None)
@given(samples())
def test_similarities_of_the_sides(sample: WorkloadSample) -> None:
    nodes = [Rectangle(0, 0, 3, 2), Rectangle(4, 0, 6, 4), Rectangle(0, 3, 1, 4)]
    cuts = np.array([(1, 0), (6, 2), (0, 3)])
    sorted_sample = sort_sample(sample, GRID)
    similarities = split_by_similarity._similarities(nodes, cuts, sorted_sample, sorted_sample.by_term())
    for (x0, y0, x1, y1), (x, y), sides in zip(nodes, cuts.tolist(), similarities):
        west, east = Rectangle(x0, y0, x, y1), Rectangle(x + 1, y0, x1, y1)
        south, north = Rectangle(x0, y0, x1, y), Rectangle(x0, y + 1, x1, y1)
        for side, similarity in zip((west, east, south, north), sides):
            if side.x0 <= side.x1 and side.y0 <= side.y1:
                assert similarity == pytest.approx(cosine(sample, side))


@settings(max_examples=60, deadline=None)
@given(samples(), rectangles())
def test_medians_halve_the_objects(sample: WorkloadSample, node: Rectangle) -> None:
    counts = build_region_counts(sample, GRID)
    x, y = split_by_similarity._medians(node, counts)
    live = set(sample.post_terms.tolist())
    has = [bool(set(terms) & live) for terms in unpack(sample.term_offsets, sample.terms)]
    column, row = GRID.cell_x(sample.lon)[has], GRID.cell_y(sample.lat)[has]
    within = (column >= node.x0) & (column <= node.x1) & (row >= node.y0) & (row <= node.y1)
    for values, first, last, at in ((column, node.x0, node.x1, x), (row, node.y0, node.y1, y)):
        values = np.sort(values[within])
        halves = [v for v in range(first, last + 1) if 2 * (values <= v).sum() >= len(values)]
        assert at == min(halves[0], max(last - 1, first))


@settings(max_examples=60, deadline=None)
@given(samples(), st.floats(0.0, 1.0), st.integers(1, 9))
def test_phase_one_covers_each_cell_once(sample: WorkloadSample, delta: float, max_regions: int) -> None:
    counts, sorted_sample = build_region_counts(sample, GRID), sort_sample(sample, GRID)
    min_rows, split_by_similarity.MIN_ROWS = split_by_similarity.MIN_ROWS, 1
    try:
        regions = split_by_similarity.split_by_similarity(sorted_sample, counts, delta, max_regions)
    finally:
        split_by_similarity.MIN_ROWS = min_rows
    cells = np.zeros((5, 7), dtype=int)
    for (x0, y0, x1, y1), by_text in ((region.rectangle, region.by_text) for region in regions):
        cells[y0 : y1 + 1, x0 : x1 + 1] += 1
        assert by_text == (cosine(sample, Rectangle(x0, y0, x1, y1)) < delta)
    assert (cells == 1).all()
    assert len(regions) <= max_regions
