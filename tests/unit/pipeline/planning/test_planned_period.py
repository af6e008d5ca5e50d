"""Insertions and deletions are counted from the first object of a sample on, and cost their share of the period."""

import pytest

from pststream.pipeline.planning.draw_sample import draw_sample
from pststream.planning.load_model import CostModel
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from tests.unit.reports.commands.homes import add_file, deletion, insertion, thing

COST = CostModel(check=0.0, object=1.0, insert=10.0, delete=1.0)


def test_requests_before_the_first_object_are_no_work_of_the_period(hand_home: Home) -> None:
    first = add_file(hand_home, "requests", [insertion(row, f"s{row}") for row in (1, 2, 3)])
    objects = add_file(hand_home, "objects", [thing(1, "a", 1), thing(2, "b", 2)])
    add_file(hand_home, "requests", [insertion(1, "s4", 3), deletion(2, "s1", 4, log_key(first, 1))])
    sample, _ = draw_sample(hand_home, Settings())
    live = sample.subscriptions * sample.subscription_scale
    assert (sample.insertions * live, sample.deletions * live) == pytest.approx((1.0, 1.0))
    assert COST.rates(sample).subscription * sample.subscriptions == pytest.approx(10.0 + 1.0)

    # A sample of later objects has the requests that came behind the object before it.
    add_file(hand_home, "objects", [thing(1, "c", 5)])
    sample, _ = draw_sample(hand_home, Settings(), after_key=log_key(objects, 2))
    assert sample.objects == 1
    assert sample.insertions == sample.deletions == pytest.approx(1.0 / live)


def test_every_request_is_work_of_a_period_without_objects(hand_home: Home) -> None:
    add_file(hand_home, "requests", [insertion(1, "s1"), insertion(2, "s2")])
    sample, _ = draw_sample(hand_home, Settings())
    assert (sample.insertions, sample.deletions) == (1.0, 0.0)
