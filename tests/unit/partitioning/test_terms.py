"""Similarity and cuts by text against counting the sample again for each region."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.cost.load_model import CostModel, LoadRates
from pststream.cost.region_counts import region_counts
from pststream.domain.plan import DispatchGrid
from pststream.domain.planner_sample import WorkloadSample
from pststream.partitioning import split_by_similarity as phase_one
from pststream.partitioning.rectangle_cuts import Rectangle
from pststream.partitioning.text_split import RegionTerms, TermGroup
from pststream.samples.raster_ranges import cell_ranges
from pststream.samples.sorted_sample import sort_sample
from tests.plans import make_sample, samples, unpack

GRID = DispatchGrid(-10.0, 30.0, 30.0, 60.0, 7, 5)
COST = CostModel(1.0, 2.0, 3.0, 0.5, 0.25)


@st.composite
def rectangles(draw: st.DrawFn) -> Rectangle:
    (x0, x1), (y0, y1) = (sorted(draw(st.tuples(*[st.integers(0, n - 1)] * 2))) for n in (7, 5))
    return Rectangle(x0, y0, x1, y1)


def inside(sample: WorkloadSample, node: Rectangle) -> tuple[list[set[int]], list[set[int]]]:
    """Live terms of each object, and posting terms of each box, in a rectangle of cells."""
    live = set(sample.post_terms.tolist())
    x, y = GRID.cell_x(sample.lon), GRID.cell_y(sample.lat)
    objects = [
        set(terms) & live
        for terms, i, j in zip(unpack(sample.term_offsets, sample.terms), x, y)
        if node.x0 <= i <= node.x1 and node.y0 <= j <= node.y1
    ]
    boxes = [
        set(terms)
        for terms, (x0, y0, x1, y1) in zip(
            unpack(sample.post_offsets, sample.post_terms), cell_ranges(GRID, sample.boxes)
        )
        if x0 <= node.x1 and x1 >= node.x0 and y0 <= node.y1 and y1 >= node.y0
    ]
    return objects, boxes


def reads_inside(sample: WorkloadSample, node: Rectangle) -> list[tuple[int, int]]:
    """Each occurrence of a term in an object of a rectangle of cells, and the postings that it reads."""
    x, y = GRID.cell_x(sample.lon), GRID.cell_y(sample.lat)
    here = (x >= node.x0) & (x <= node.x1) & (y >= node.y0) & (y <= node.y1)
    kept = np.repeat(here, np.diff(sample.term_offsets))
    return list(zip(sample.terms[kept].tolist(), sample.reads[kept].tolist()))


def cosine(sample: WorkloadSample, node: Rectangle) -> float:
    said, asked = (Counter(term for terms in side for term in terms) for side in inside(sample, node))
    norms = math.sqrt(sum(n * n for n in said.values()) * sum(n * n for n in asked.values()))
    return sum(said[term] * asked[term] for term in said) / norms if norms else 1.0


@settings(max_examples=60, deadline=None)
@given(samples())
def test_similarities_of_the_sides(sample: WorkloadSample) -> None:
    nodes = [Rectangle(0, 0, 3, 2), Rectangle(4, 0, 6, 4), Rectangle(0, 3, 1, 4)]
    cuts = np.array([(1, 0), (6, 2), (0, 3)])
    postings = sort_sample(sample, GRID)
    found = phase_one._similarities(nodes, cuts, postings, postings.by_term())
    for (x0, y0, x1, y1), (x, y), sides in zip(nodes, cuts.tolist(), found):
        west, east = Rectangle(x0, y0, x, y1), Rectangle(x + 1, y0, x1, y1)
        south, north = Rectangle(x0, y0, x1, y), Rectangle(x0, y + 1, x1, y1)
        for side, similarity in zip((west, east, south, north), sides):
            if side.x0 <= side.x1 and side.y0 <= side.y1:
                assert similarity == pytest.approx(cosine(sample, side))


@settings(max_examples=60, deadline=None)
@given(samples(), rectangles())
def test_medians_halve_the_objects(sample: WorkloadSample, node: Rectangle) -> None:
    counts = region_counts(sample, GRID)
    x, y = phase_one._medians(node, counts)
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
def test_phase_one_covers_each_cell_once(sample: WorkloadSample, delta: float, most: int) -> None:
    counts, postings = region_counts(sample, GRID), sort_sample(sample, GRID)
    least, phase_one.MIN_ROWS = phase_one.LEAST, 1
    try:
        regions = phase_one.split_by_similarity(postings, counts, delta, most)
    finally:
        phase_one.MIN_ROWS = least
    cells = np.zeros((5, 7), dtype=int)
    for (x0, y0, x1, y1), by_text in ((region.rectangle, region.by_text) for region in regions):
        cells[y0 : y1 + 1, x0 : x1 + 1] += 1
        assert by_text == (cosine(sample, Rectangle(x0, y0, x1, y1)) < delta)
    assert (cells == 1).all()
    assert len(regions) <= most


@settings(max_examples=60, deadline=None)
@given(samples(), rectangles(), st.integers(1, 5))
def test_parts_by_text_are_what_they_say(sample: WorkloadSample, node: Rectangle, parts: int) -> None:
    rates, postings = COST.rates(sample), sort_sample(sample, GRID)
    found = RegionTerms(node, postings).cut(parts, rates)
    objects, boxes = inside(sample, node)
    of_terms = reads_inside(sample, node)
    assert 1 <= len(found) <= parts
    named = [term for part in found for term in postings.term_ids[part.terms].tolist()]
    assert sorted(named) == sorted(set().union(*objects, *boxes))
    for part in found:
        terms = set(postings.term_ids[part.terms].tolist())
        assert part.objects == sum(bool(terms & some) for some in objects)
        assert part.subscriptions == sum(bool(terms & some) for some in boxes)
        read = sum(reads for term, reads in of_terms if term in terms)
        assert part.reads == read
        assert part.load == pytest.approx(rates.load(*map(np.array, (part.objects, part.subscriptions, read))))


@settings(max_examples=60, deadline=None)
@given(samples(), st.integers(1, 4))
def test_no_cut_of_the_same_order_is_much_better(sample: WorkloadSample, parts: int) -> None:
    """By the least bound under which filling run after run needs no more than `parts` of them."""
    node, rates, postings = Rectangle(0, 0, 6, 4), COST.rates(sample), sort_sample(sample, GRID)
    text = RegionTerms(node, postings)
    order, (objects, boxes) = postings.term_ids[text.terms].tolist(), inside(sample, node)
    of_terms = reads_inside(sample, node)

    def load(first: int, end: int) -> float:
        terms = set(order[first:end])
        o, s = sum(bool(terms & some) for some in objects), sum(bool(terms & some) for some in boxes)
        return float(rates.load(*map(np.array, (o, s, sum(n for term, n in of_terms if term in terms)))))

    best = [[math.inf] * (parts + 1) for _ in range(len(order) + 1)]
    best[0] = [0.0] * (parts + 1)
    for end in range(1, len(order) + 1):
        for used in range(1, parts + 1):
            best[end][used] = min(max(best[first][used - 1], load(first, end)) for first in range(end))
    found = text.cut(parts, rates)
    assert max((part.load for part in found), default=0.0) <= best[len(order)][parts] / 0.98 + 1e-9
    if order:
        assert text.cut(parts, rates, best[len(order)][parts] * 0.9 - 1.0) == []


def rare_and_frequent(count: int) -> tuple[RegionTerms, LoadRates]:
    """Each object says term 0 and a term of its own; nine boxes in ten ask for one of these, one for term 0."""
    terms = [[0, i + 1] for i in range(count)]
    posts = [[0] if i % 10 == 0 else [i + 1] for i in range(count)]
    sample = make_sample([(0.0, 40.0)] * count, terms, [(-1, 39, 1, 41)] * count, posts)
    rates = LoadRates(pair=1.0, object=0.0, subscription=0.0)
    return RegionTerms(Rectangle(0, 0, 6, 4), sort_sample(sample, GRID)), rates


def test_rare_terms_go_together() -> None:
    text, rates = rare_and_frequent(1000)
    frequent = text.cut(2, rates)[-1]
    assert frequent.terms.tolist()[0] != 0 or frequent.objects == 1000
    assert max(part.load for part in text.cut(8, rates)) <= 100 * 1000


def test_one_term_is_one_part() -> None:
    sample = make_sample([(0, 40)] * 9, [[7]] * 9, [(-1, 39, 1, 41)] * 9, [[7]] * 9)
    found = RegionTerms(Rectangle(0, 0, 6, 4), sort_sample(sample, GRID)).cut(4, COST.rates(sample))
    assert [(part.objects, part.subscriptions) for part in found] == [(9, 9)]
    assert isinstance(found[0], TermGroup)
