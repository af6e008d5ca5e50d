"""The list of plans, and one plan with its units and its map, stay small."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pststream.base.errors import UsageError
from pststream.reports.commands import plans as plans_module
from pststream.reports.commands.plans import draw_text_map, list_plans, render_plan, render_plans, show_plan
from pststream.state.home import Home
from pststream.state.plans import Retiring
from tests.unit.reports.commands.homes import add_plan, halves


def test_no_plan_yet(hand_home: Home) -> None:
    assert list_plans(hand_home) == []
    assert "no plans yet" in render_plans([])
    with pytest.raises(UsageError, match="no plan yet"):
        show_plan(hand_home)


def test_two_active_plans(hand_home: Home) -> None:
    add_plan(hand_home, halves(2))
    add_plan(hand_home, halves(2), version=2, retiring=Retiring(1, 77))
    listed = list_plans(hand_home)
    assert [(plan["current"], plan["retiring"]) for plan in listed] == [(False, True), (True, False)]
    assert "~1" in render_plans(listed) and "*2" in render_plans(listed)
    assert "plan 1 still serves the subscriptions up to key 77" in render_plan(show_plan(hand_home))


def test_list_and_show(hand_home: Home) -> None:
    add_plan(hand_home, halves(2))
    add_plan(hand_home, halves(4), version=2)
    listed = list_plans(hand_home)
    assert [(plan["plan_version"], plan["workers"], plan["current"]) for plan in listed] == [
        (1, 2, False),
        (2, 4, True),
    ]
    json.dumps(listed)
    assert "*2" in render_plans(listed)
    shown = show_plan(hand_home)
    json.dumps(shown)
    assert shown["plan_version"] == 2
    assert shown["units_shown"][0] == {
        "unit": 3, "worker": 3, "leaf": 3, "takes_other_terms": True, "load": 3.0, "objects": 1.0,
        "subscriptions": 1.0, "west": 90.0, "south": -90.0, "east": 180.0, "north": 90.0, "terms": None,
    }  # fmt: skip
    assert shown["map"][0] == "0" * 15 + "1" * 15 + "2" * 15 + "3" * 15
    assert len(shown["map"]) == 20
    assert show_plan(hand_home, 1)["workers"] == 2
    assert shown["map"][0] in render_plan(shown)
    with pytest.raises(UsageError, match="no plan 3"):
        show_plan(hand_home, 3)


def test_options_of_planners_are_shown(hand_home: Home) -> None:
    add_plan(hand_home, halves(2))
    add_plan(hand_home, halves(2), version=2, options={"planner_options": "delta=0.3,sigma=1.2"})
    listed = list_plans(hand_home)
    assert [plan["planner_options"] for plan in listed] == ["", "delta=0.3,sigma=1.2"]
    head, first, second = (line.split() for line in render_plans(listed).splitlines()[:3])
    assert head[2] == "options" and (first[2], second[2]) == ("defaults", "delta=0.3,sigma=1.2")
    assert "options of the planner: delta=0.3,sigma=1.2" in render_plan(show_plan(hand_home))


def test_many_units_are_cut(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans_module, "MAX_UNITS", 5)
    add_plan(hand_home, halves(64))
    shown = show_plan(hand_home)
    assert [unit["unit"] for unit in shown["units_shown"]] == [63, 62, 61, 60, 59]
    assert "and 59 units" in render_plan(shown)
    assert "modulo 62" in render_plan(shown)


def test_a_leaf_shared_by_text(hand_home: Home) -> None:
    plan = shared_by_text()
    add_plan(hand_home, plan)
    shown = show_plan(hand_home)
    assert set(draw_text_map(plan)[0]) == {"0", "*"}
    terms = {unit["unit"]: unit["terms"] for unit in shown["units_shown"]}
    assert terms == {0: None, 1: 2, 2: 0}
    assert "several workers, by text" in render_plan(shown)


def shared_by_text():  # type: ignore[no-untyped-def]
    """Halves, of which the eastern one is shared by units 1 (terms 5 and 9, and others) and 2 (others)."""
    return replace(
        halves(2),
        leaf_unit=np.array([0, -1], np.int32),
        term_offsets=np.array([0, 0, 2]),
        terms=np.array([5, 9]),
        term_unit=np.array([1, 1], np.int32),
        spread_offsets=np.array([0, 0, 2]),
        spread_unit=np.array([1, 2], np.int32),
        unit_worker=np.array([0, 1, 0], np.int32),
    )
