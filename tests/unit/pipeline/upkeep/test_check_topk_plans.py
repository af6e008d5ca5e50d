"""The check of plans of `topk`: no fault in what planners make, and each fault of a row that is changed by hand."""

from typing import Any

import pytest

from pststream.base import names
from pststream.base.errors import HomeError
from pststream.pipeline.replan.plan_topk import plan_topk, put_in_force
from pststream.pipeline.upkeep.check_tables import count_ledger_faults, is_whole
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.state.plans import load_topk_plan, topk_planner_of
from tests.damage import delete_rows
from tests.topk_plans import add_topk_plan, topk_row
from tests.unit.reports.commands.homes import add_plan, halves

UNITS = {"location": 4, "keyword": 3, "prefix": 1, "spatial_first": 6, "keyword_first": 6}
"""The units of the plan of each planner."""


def off(home: Home) -> dict[str, int]:
    return {figure: value for figure, value in count_ledger_faults(home).items() if value}


def test_plans_that_are_there_and_those_that_are_not(hand_home: Home) -> None:
    """Versions 2 and 3 name the plan of version 2, which is whole, then twice there, then broken, then missing."""
    add_plan(hand_home, halves())
    row = topk_row("spatial_first", 6)
    add_topk_plan(hand_home, row)
    ledger_tables.append(hand_home, names.TOPK_PLANS, [row | {"plan_version": 9, "first": 5}])
    for version, topk in ((3, 2), (4, None)):
        put_in_force(hand_home, version, topk)
    assert off(hand_home) == {}, "a killed planner has left the plan of version 9"
    ledger_tables.append(hand_home, names.TOPK_PLANS, [row])
    assert off(hand_home) == {"topk_plans_off": 2}
    delete_rows(hand_home, names.TOPK_PLANS, "plan_version = 2")
    assert off(hand_home) == {"topk_plans_off": 2}
    ledger_tables.append(hand_home, names.TOPK_PLANS, [row | {"first": 5}])
    assert off(hand_home) == {"topk_plans_broken": 1}


def test_a_lost_plan_is_an_error_until_another_is_made(hand_home: Home) -> None:
    add_plan(hand_home, halves())
    add_topk_plan(hand_home, topk_row("location", 4))
    delete_rows(hand_home, names.TOPK_PLANS, "plan_version = 2")
    for read in (topk_planner_of, load_topk_plan):
        with pytest.raises(HomeError, match="topk_plans has lost the row of plan version 2") as lost:
            read(hand_home, 2)
        assert "plan --kinds topk --planner hash" in str(lost.value)
    with pytest.raises(HomeError, match="topk_plans"):
        plan_topk(hand_home, Settings(), "keyword")
    assert plan_topk(hand_home, Settings(), "hash")["plan_version"] == 3
    assert topk_planner_of(hand_home, 3) == ("hash", "")


@pytest.mark.parametrize("planner", UNITS)
def test_a_plan_as_it_was_made_is_whole(planner: str) -> None:
    assert is_whole(topk_row(planner, UNITS[planner]))


@pytest.mark.parametrize(
    ("planner", "changes"),
    [
        ("location", {"planner": "hash"}),
        ("location", {"planner": "voronoi"}),
        ("location", {"planner": "spatial_first"}),
        ("location", {"way": "words_first"}),
        ("location", {"way": "hash"}),
        ("location", {"first": 0}),
        ("location", {"first": 5}),
        ("location", {"space_cuts": [0.0, 1.0]}),
        ("location", {"space_cuts": [0.0, float("nan"), 1.0]}),
        ("location", {"space_cuts": [0.0, 200.0, 1.0]}),
        ("location", {"unit_loads": [1.0] * 3}),
        ("location", {"unit_loads": [1.0, 1.0, -1.0, 1.0]}),
        ("location", {"copies": float("nan")}),
        ("location", {"options": "{"}),
        ("location", {"options": "{}"}),
        ("location", {"options": "[]"}),
        ("location", {"options": '{"planner_options": "first=2"}'}),
        ("keyword", {"is_prefix": True}),
        ("keyword", {"word_cuts": [2, 1]}),
        ("keyword", {"word_cuts": [-1, 1]}),
        ("keyword", {"word_cuts": [1, 1000]}),
        ("keyword", {"words": [1, 2, 3, 2], "word_cuts": [1, 2]}),
        ("prefix", {"word_cuts": [1]}),
        ("spatial_first", {"options": '{"planner_options": "first=3"}'}),
        ("spatial_first", {"options": '{"planner_options": "first=4"}'}),
        ("keyword_first", {"second": 2}),
    ],
)
def test_a_row_that_does_not_fit_together_is_not_whole(planner: str, changes: dict[str, Any]) -> None:
    assert not is_whole(topk_row(planner, UNITS[planner]) | changes)
