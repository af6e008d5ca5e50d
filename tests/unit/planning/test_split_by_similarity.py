"""Similarities, medians and the regions of phase one against counting the sample again for each region."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.planning.live_terms import sort_sample
from pststream.planning.planners import hybrid
from pststream.planning.planners.hybrid import PlanningRegion
from pststream.planning.planners.rectangle_cuts import COLUMNS_APART, ROWS_APART, Rectangle
from pststream.planning.region_counts import build_region_counts
from pststream.plans.planner_sample import WorkloadSample
from tests.fuzz.cases import examples, seeds
from tests.plans import TERMS, make_sample, samples, unpack
from tests.unit.planning.regions import GRID, inside, rectangles


def cosine(sample: WorkloadSample, node: Rectangle) -> float:
    of_objects, of_boxes = (Counter(term for terms in side for term in terms) for side in inside(sample, node))
    norms = math.sqrt(sum(n * n for n in of_objects.values()) * sum(n * n for n in of_boxes.values()))
    return sum(of_objects[term] * of_boxes[term] for term in of_objects) / norms if norms else 1.0


@examples(60)
@given(samples())
def test_similarities_of_the_sides(sample: WorkloadSample) -> None:
    nodes = [Rectangle(0, 0, 3, 2), Rectangle(4, 0, 6, 4), Rectangle(0, 3, 1, 4)]
    cuts = np.array([(1, 0), (6, 2), (0, 3)])
    sorted_sample = sort_sample(sample, GRID)
    similarities = hybrid._similarities(nodes, cuts, sorted_sample, sorted_sample.by_term())
    for (x0, y0, x1, y1), (x, y), sides in zip(nodes, cuts.tolist(), similarities):
        west, east = Rectangle(x0, y0, x, y1), Rectangle(x + 1, y0, x1, y1)
        south, north = Rectangle(x0, y0, x1, y), Rectangle(x0, y + 1, x1, y1)
        for side, similarity in zip((west, east, south, north), sides):
            if side.x0 <= side.x1 and side.y0 <= side.y1:
                assert similarity == pytest.approx(cosine(sample, side))


@examples(60)
@given(samples(), rectangles())
def test_medians_halve_the_objects(sample: WorkloadSample, node: Rectangle) -> None:
    counts = build_region_counts(sample, GRID)
    x, y = (hybrid._median(node, axis, counts) for axis in (COLUMNS_APART, ROWS_APART))
    live = set(sample.post_terms.tolist())
    has = [bool(set(terms) & live) for terms in unpack(sample.term_offsets, sample.terms)]
    column, row = GRID.cell_x(sample.lon)[has], GRID.cell_y(sample.lat)[has]
    within = (column >= node.x0) & (column <= node.x1) & (row >= node.y0) & (row <= node.y1)
    for values, first, last, at in ((column, node.x0, node.x1, x), (row, node.y0, node.y1, y)):
        values = np.sort(values[within])
        halves = [v for v in range(first, last + 1) if 2 * (values <= v).sum() >= len(values)]
        assert at == min(halves[0], max(last - 1, first))


def halves(sample: WorkloadSample, node: Rectangle) -> list[tuple[Rectangle, Rectangle]]:
    """The halves of a node on each axis that can be cut, at the median of its live objects."""
    live = set(sample.post_terms.tolist())
    has = [bool(set(terms) & live) for terms in unpack(sample.term_offsets, sample.terms)]
    cells = list(zip(GRID.cell_x(sample.lon)[has].tolist(), GRID.cell_y(sample.lat)[has].tolist()))
    x0, y0, x1, y1 = node
    columns, rows = zip(*(cell for cell in cells if x0 <= cell[0] <= x1 and y0 <= cell[1] <= y1), strict=True)
    ways = []
    if x0 < x1:
        x = min(sorted(columns)[(len(columns) - 1) // 2], x1 - 1)
        ways.append((Rectangle(x0, y0, x, y1), Rectangle(x + 1, y0, x1, y1)))
    if y0 < y1:
        y = min(sorted(rows)[(len(rows) - 1) // 2], y1 - 1)
        ways.append((Rectangle(x0, y0, x1, y), Rectangle(x0, y + 1, x1, y1)))
    return ways


def regions_of_algorithm_1(sample: WorkloadSample, delta: float) -> set[PlanningRegion]:
    """Lines 1 to 12 of Algorithm 1, node by node; a side without objects or boxes is not split off."""
    undecided, decided = [Rectangle(0, 0, 6, 4)], set[PlanningRegion]()
    while undecided:
        node = undecided.pop()
        similarity = cosine(sample, node)
        if similarity >= delta:
            decided.add(PlanningRegion(node, False))
            continue
        ways = [way for way in halves(sample, node) if all(all(map(any, inside(sample, half))) for half in way)]
        alphas = [min(cosine(sample, half) for half in way) for way in ways]
        if alphas and abs(min(alphas) - similarity) > hybrid.CONSISTENT:
            undecided += ways[alphas.index(min(alphas))]
        else:
            decided.add(PlanningRegion(node, True))
    return decided


def world_of_places(seed: int) -> WorkloadSample:
    """80 objects and 60 boxes, whose terms depend on the longitude in the south and are at random in the north."""
    rng = np.random.default_rng(seed)
    points, middles = (rng.uniform((-10.0, 30.0), (30.0, 60.0), (count, 2)) for count in (80, 60))

    def draw_terms(places: np.ndarray, shift: int) -> list[list[int]]:
        return [
            [TERMS[int(lon // 8 + 2 + shift) % 8]] if lat < 45.0 else rng.choice(TERMS, 2).tolist()
            for lon, lat in places.tolist()
        ]

    boxes = [(x - 1.0, y - 1.0, x + 1.0, y + 1.0) for x, y in middles.tolist()]
    shift = int(rng.integers(3))
    return make_sample([tuple(p) for p in points.tolist()], draw_terms(points, 0), boxes, draw_terms(middles, shift))


@seeds(12)
@pytest.mark.parametrize("delta", [0.8, 0.9, 0.99])
def test_phase_one_is_that_of_algorithm_1(monkeypatch: pytest.MonkeyPatch, seed: int, delta: float) -> None:
    sample = world_of_places(seed)
    counts, sorted_sample = build_region_counts(sample, GRID), sort_sample(sample, GRID)
    monkeypatch.setattr(hybrid, "MIN_ROWS", 1)
    regions = hybrid.split_by_similarity(sorted_sample, counts, delta, 99)
    assert len(regions) == len(set(regions)) and set(regions) == regions_of_algorithm_1(sample, delta)
    assert len(regions) > 1 or delta < 0.99


@examples(60)
@given(samples(), st.floats(0.0, 1.0), st.integers(1, 9))
def test_phase_one_covers_each_cell_once(sample: WorkloadSample, delta: float, max_regions: int) -> None:
    counts, sorted_sample = build_region_counts(sample, GRID), sort_sample(sample, GRID)
    min_rows, hybrid.MIN_ROWS = hybrid.MIN_ROWS, 1
    try:
        regions = hybrid.split_by_similarity(sorted_sample, counts, delta, max_regions)
    finally:
        hybrid.MIN_ROWS = min_rows
    cells = np.zeros((5, 7), dtype=int)
    for (x0, y0, x1, y1), by_text in ((region.rectangle, region.by_text) for region in regions):
        cells[y0 : y1 + 1, x0 : x1 + 1] += 1
        assert by_text == (cosine(sample, Rectangle(x0, y0, x1, y1)) < delta)
    assert (cells == 1).all()
    assert len(regions) <= max_regions
