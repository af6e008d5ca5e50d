"""Term groups of a region against counting, and their cuts against all cuts of the same order."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.planning.live_terms import sort_sample
from pststream.planning.load_model import LoadRates
from pststream.planning.planners.grow_tree import RegionTerms, TermGroup
from pststream.planning.planners.rectangle_cuts import Rectangle
from pststream.plans.planner_sample import WorkloadSample
from tests.fuzz.cases import examples
from tests.plans import make_sample, samples
from tests.unit.planning.regions import COST, GRID, inside, reads_inside, rectangles


@examples(60)
@given(samples(), rectangles(), st.integers(1, 5))
def test_term_groups_equal_counting(sample: WorkloadSample, node: Rectangle, groups: int) -> None:
    rates, sorted_sample = COST.rates(sample), sort_sample(sample, GRID)
    term_groups = RegionTerms(node, sorted_sample).cut(groups, rates)
    objects, boxes = inside(sample, node)
    of_terms = reads_inside(sample, node)
    assert 1 <= len(term_groups) <= groups
    named = [term for group in term_groups for term in sorted_sample.term_ids[group.terms].tolist()]
    assert sorted(named) == sorted(set().union(*objects, *boxes))
    for group in term_groups:
        terms = set(sorted_sample.term_ids[group.terms].tolist())
        assert group.objects == sum(bool(terms & some) for some in objects)
        assert group.subscriptions == sum(bool(terms & some) for some in boxes)
        read = sum(reads for term, reads in of_terms if term in terms)
        assert group.reads == read
        assert group.load == pytest.approx(rates.load(*map(np.array, (group.objects, group.subscriptions, read))))


@examples(60)
@given(samples(), st.integers(1, 4))
def test_no_cut_of_the_same_order_is_much_better(sample: WorkloadSample, groups: int) -> None:
    """Compared with the least bound under which at most `groups` runs are needed."""
    node, rates, sorted_sample = Rectangle(0, 0, 6, 4), COST.rates(sample), sort_sample(sample, GRID)
    text = RegionTerms(node, sorted_sample)
    order, (objects, boxes) = sorted_sample.term_ids[text.terms].tolist(), inside(sample, node)
    of_terms = reads_inside(sample, node)

    def load(first: int, end: int) -> float:
        terms = set(order[first:end])
        o, s = sum(bool(terms & some) for some in objects), sum(bool(terms & some) for some in boxes)
        return float(rates.load(*map(np.array, (o, s, sum(n for term, n in of_terms if term in terms)))))

    best = [[math.inf] * (groups + 1) for _ in range(len(order) + 1)]
    best[0] = [0.0] * (groups + 1)
    for end in range(1, len(order) + 1):
        for used in range(1, groups + 1):
            best[end][used] = min(max(best[first][used - 1], load(first, end)) for first in range(end))
    term_groups = text.cut(groups, rates)
    assert max((group.load for group in term_groups), default=0.0) <= best[len(order)][groups] / 0.98 + 1e-9
    if order:
        assert text.cut(groups, rates, best[len(order)][groups] * 0.9 - 1.0) == []


def rare_and_frequent(count: int) -> tuple[RegionTerms, LoadRates]:
    """Each object has term 0 and one of its own; one box in ten is posted under term 0, the others under the latter."""
    terms = [[0, i + 1] for i in range(count)]
    posts = [[0] if i % 10 == 0 else [i + 1] for i in range(count)]
    sample = make_sample([(0.0, 40.0)] * count, terms, [(-1, 39, 1, 41)] * count, posts)
    rates = LoadRates(pair=1.0, object=0.0, subscription=0.0)
    return RegionTerms(Rectangle(0, 0, 6, 4), sort_sample(sample, GRID)), rates


def test_rare_terms_stay_together() -> None:
    text, rates = rare_and_frequent(1000)
    frequent = text.cut(2, rates)[-1]
    assert frequent.terms.tolist()[0] != 0 or frequent.objects == 1000
    assert max(group.load for group in text.cut(8, rates)) <= 100 * 1000


def test_one_term_is_one_group() -> None:
    sample = make_sample([(0, 40)] * 9, [[7]] * 9, [(-1, 39, 1, 41)] * 9, [[7]] * 9)
    term_groups = RegionTerms(Rectangle(0, 0, 6, 4), sort_sample(sample, GRID)).cut(4, COST.rates(sample))
    assert [(group.objects, group.subscriptions) for group in term_groups] == [(9, 9)]
    assert isinstance(term_groups[0], TermGroup)
