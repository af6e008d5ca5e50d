"""Cuts of a rectangle against trying them all."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pststream.planning.load_model import CostModel
from pststream.planning.planners.grow_tree import TermGroup, grow_best_tree
from pststream.planning.planners.rectangle_cuts import (
    COLUMNS_APART,
    ROWS_APART,
    Rectangle,
    estimate_load,
    find_best_cut,
)
from pststream.planning.region_counts import RegionCounts, build_region_counts
from pststream.plans.plan import DispatchGrid
from pststream.plans.planner_sample import WorkloadSample
from tests.fuzz.cases import examples
from tests.plans import make_sample, samples

COST = CostModel(1.0, 2.0, 3.0, 0.5)
GRID = DispatchGrid(0.0, 0.0, 8.0, 8.0, 8, 8)
WHOLE = Rectangle(0, 0, 7, 7)


def counts_of(sample: WorkloadSample) -> tuple[RegionCounts, WorkloadSample]:
    return build_region_counts(sample, GRID), sample


@examples(60)
@given(samples(), st.integers(2, 9))
def test_no_cut_is_better(sample: WorkloadSample, workers: int) -> None:
    grid = DispatchGrid(-10.0, 30.0, 30.0, 60.0, 7, 5)
    counts, rates = build_region_counts(sample, grid), COST.rates(sample)
    loads = []
    for low in {workers // 2, workers - workers // 2}:
        for x in range(6):
            west = estimate_load(counts, rates, low, 0, 0, x, 4)
            loads.append(max(west, estimate_load(counts, rates, workers - low, x + 1, 0, 6, 4)))
        for y in range(4):
            south = estimate_load(counts, rates, low, 0, 0, 6, y)
            loads.append(max(south, estimate_load(counts, rates, workers - low, 0, y + 1, 6, 4)))
    cut = find_best_cut(Rectangle(0, 0, 6, 4), workers, counts, rates)
    assert cut.load <= float(min(loads)) * (1 + 1e-8)
    assert cut.low_workers + cut.high_workers == workers
    assert cut.low.cells + cut.high.cells == 35


def test_one_worker_is_expected_to_have_definition_1() -> None:
    counts, sample = counts_of(make_sample([(1, 1)] * 3, [[1]] * 3, [(0, 0, 5, 5), (6, 6, 7, 7)], [[1], [1]]))
    rates = COST.rates(sample)
    assert float(estimate_load(counts, rates, 1, *WHOLE)) == float(counts.load(rates, *WHOLE)) == 3 * 2 + 2 * 3 + 3 * 2


def test_boxes_that_cover_all_are_expected_on_both_sides() -> None:
    counts, sample = counts_of(make_sample([(1, 1), (7, 7)], [[1]] * 2, [(0, 0, 8, 8)] * 6, [[1]] * 6))
    assert float(estimate_load(counts, COST.rates(sample), 2, *WHOLE)) == 1 * 6 + 2 * 1 + 3 * 6


def test_without_data_the_cut_is_by_area() -> None:
    counts, sample = counts_of(make_sample([], [], [], []))
    rates = COST.rates(sample)
    assert find_best_cut(WHOLE, 4, counts, rates).low == Rectangle(0, 0, 3, 7)
    assert find_best_cut(WHOLE, 3, counts, rates).low.cells in (24, 40)
    assert find_best_cut(Rectangle(0, 0, 0, 7), 2, counts, rates).axis == ROWS_APART
    assert find_best_cut(Rectangle(0, 0, 7, 0), 2, counts, rates).axis == COLUMNS_APART


def test_the_more_loaded_side_gets_the_odd_worker() -> None:
    points = [(x + 0.5, y + 0.5) for x in range(8) for y in range(8) for _ in range(3 if x >= 4 else 1)]
    counts, sample = counts_of(make_sample(points, [[1]] * len(points), [(0, 0, 8, 8)], [[1]]))
    cut = find_best_cut(WHOLE, 3, counts, CostModel(0.0, 1.0, 0.0, 0.0).rates(sample))
    assert sorted([cut.low_workers, cut.high_workers]) == [1, 2]
    assert np.isclose(cut.load, len(points) / 3, rtol=0.15)


def test_later_trees_keep_leaves_by_text() -> None:
    """A raster cell, which cannot be cut, is partitioned by text in all trees, not only in the first."""
    sample = make_sample([(0.5, 0.5)] * 40, [[1], [2]] * 20, [(0.1, 0.1, 0.9, 0.9)] * 20, [[1], [2]] * 10)
    counts, cell = build_region_counts(sample, DispatchGrid(0.0, 0.0, 8.0, 8.0, 1, 1)), Rectangle(0, 0, 0, 0)
    bounds = []

    def by_text(rectangle: Rectangle, workers: int, bound: float) -> list[TermGroup]:
        bounds.append(bound)
        return [TermGroup(np.array([n], np.int32), 10, 5, 0, 10.0) for n in range(workers)]

    tree = grow_best_tree(cell, 4, counts, CostModel(0.0, 1.0, 0.0, 0.0).rates(sample), by_text)
    assert [part.load for part in tree.by_text] == tree.loads.tolist() == [10.0] * 4
    assert bounds == [40.0, np.inf, np.inf, np.inf]
