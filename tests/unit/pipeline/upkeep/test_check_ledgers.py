"""The check of ledgers and plans on homes written by hand: no fault in a sound one, and each fault that can be."""

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
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import log_key
from tests.damage import delete_rows
from tests.topk_plans import add_topk_plan, topk_row
from tests.unit.reports.commands.homes import add_batch, add_file, add_plan, halves, insertion, reject, thing


def off(home: Home) -> dict[str, int]:
    return {figure: value for figure, value in count_ledger_faults(home).items() if value}


def filled(home: Home) -> Home:
    """Three objects, of which a batch took two; two requests; a reject."""
    add_plan(home, halves())
    add_file(home, "objects", [thing(row, f"o{row}") for row in (1, 2, 4)], [reject(3, "out_of_range")])
    add_file(home, "requests", [insertion(row, f"s{row}") for row in (1, 2)])
    add_batch(home, objects_to=log_key(1, 3), done=False)
    done = {**read_table(home.table(names.BATCHES)).to_pylist()[0], "status": "done", "objects": 2, "requests": 2}
    ledger_tables.append(home, names.BATCHES, [done | {"matches": 0, "retractions": 0, "seconds_by_step": []}])
    return home


def test_an_empty_home_and_a_sound_one(hand_home: Home) -> None:
    assert off(hand_home) == {}
    assert off(filled(hand_home)) == {}


def test_what_a_batch_counted(hand_home: Home) -> None:
    filled(hand_home)
    delete_rows(hand_home, names.OBJECTS, "object_id = 'o1'")
    assert off(hand_home) == {"objects_off": -1, "matched_off": 1}


def test_objects_of_a_file_that_a_batch_cut_are_counted_up_to_the_cut(hand_home: Home) -> None:
    filled(hand_home)
    delete_rows(hand_home, names.OBJECTS, "object_id = 'o4'")
    assert off(hand_home) == {"objects_off": -1}


def test_rows_twice(hand_home: Home) -> None:
    filled(hand_home)
    for name in (names.REQUESTS, names.REJECTS):
        ledger_tables.append(hand_home, name, read_table(hand_home.table(name)))
    assert off(hand_home) == {"requests_off": 2, "rejects_off": 1}


def test_a_started_file_leaves_row_counts_undefined(hand_home: Home) -> None:
    filled(hand_home)
    add_file(hand_home, "requests", [insertion(1, "s3")], done=False)
    assert off(hand_home) == {"unfinished_files": 1}


def test_batches_that_are_unfinished_missing_or_with_gaps(hand_home: Home) -> None:
    filled(hand_home)
    add_batch(hand_home, done=False)
    assert off(hand_home) == {"unfinished_batches": 1}
    delete_rows(hand_home, names.BATCHES, "batch_id = 1")
    assert off(hand_home) == {"unfinished_batches": 1, "missing_batches": 1, "batch_gaps": 1}


def test_watermarks(hand_home: Home) -> None:
    filled(hand_home)
    add_file(hand_home, "objects", [thing(1, "o9", 60)])  # written by hand with no watermark
    assert off(hand_home) == {"wrong_watermarks": 1}


def test_units_of_plans_and_of_a_planner_that_was_killed(hand_home: Home) -> None:
    filled(hand_home)
    units = read_table(hand_home.table(names.PLAN_UNITS))
    later = units.set_column(0, "plan_version", ledger_tables.pa.array([2] * units.num_rows))
    ledger_tables.append(hand_home, names.PLAN_UNITS, later)
    assert off(hand_home) == {}, "what a killed planner left"
    delete_rows(hand_home, names.PLAN_UNITS, "plan_version = 1 AND unit = 0")
    assert off(hand_home) == {"units_off": -1}


UNITS = {"location": 4, "keyword": 3, "prefix": 1, "spatial_first": 6, "keyword_first": 6}
"""The units of the plan of each planner."""


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
