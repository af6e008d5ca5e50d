"""Plans are listed and shown, also that of `topk`; owners of terms and rarest clauses are those of the fast code."""

import json
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from pststream.base.errors import UsageError
from pststream.planning.dispatch import DispatchIndex
from pststream.plans.pieces import rarest_clause_first
from pststream.reports.commands import plans as plans_module
from pststream.reports.commands.comparisons import render_topk_comparison
from pststream.reports.commands.explain_matches import find_index_cell, find_rarest_clause
from pststream.reports.commands.plans import (
    draw_text_map,
    list_plans,
    render_plan,
    render_plans,
    render_topk_plan,
    show_plan,
)
from pststream.state.home import Home
from pststream.state.plans import Retiring
from tests.routes import units_of
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


def test_a_plan_as_text() -> None:
    plan = {
        "plan_version": 3, "topk_version": 2, "planner": "keyword_first", "way": "words_first", "first": 3, "second": 7,
        "unit_loads": [2.0] * 20 + [1.0], "unit_seconds": [0.5, 0.25, *[0.0] * 19], "measured_batches": 7,
        "unit_objects": [1200, *[0] * 20], "unit_subscriptions": [34, *[0] * 20],
        "measured_imbalance": 2.0, "replication": 1.25, "copies": 2.5, "imbalance": 2.0, "seconds": 0.5,
        "created_at": "2026-01-02T03:04:05+00:00",
    }  # fmt: skip
    lines = render_topk_plan(plan).splitlines()
    head = "plan 3, topk: keyword_first, 21 units: 3 parts of words, each divided by the space into 7; made at"
    assert lines[0].startswith(f"{head} 2026-01-02T03:04:05 in ")
    assert lines[1].startswith("1.25 units a subscription, 2.5 units an object, imbalance 2 ")
    assert lines[-1] == "... and 1 unit more"
    assert lines[2] == "measured in 7 batches: imbalance 2 (CPU seconds of the search)"
    assert [line.split() for line in lines[4:6]] == [
        ["unit", "load", "CPU", "s", "objects", "subscriptions"],
        ["0", "2", "0.5", "1,200", "34"],
    ]


def test_a_home_without_a_plan_of_topk() -> None:
    text = render_topk_plan({"plan_version": 1, "topk_version": None, "planner": "hash"})
    assert text == "plan 1, topk: hash; candidates are found by answer bucket"


def test_measured_planners_as_text() -> None:
    figures = {
        "throughput": 12_000, "total_us": 3.5, "slowest_us": 1.25, "imbalance": None, "model_imbalance": 1.5,
        "model_correlation": None, "replication": 1.9, "copies": 4.5, "route_us": 0.5, "plan_seconds": 0.1, "pairs": 77,
    }  # fmt: skip
    document = {"plans": [{"planner": "prefix", **figures}], "objects": 1000, "subscriptions": 50, "workers": 4}
    lines = render_topk_comparison(document).splitlines()
    cells = lines[1].replace("infinite (idle worker)", "idle").split()
    assert cells == ["prefix", "12,000", "3.5", "1.25", "idle", "1.5", "-", "1.9", "4.5", "0.5", "0.1", "77"]
    assert lines[-1] == "50 sampled subscriptions, 1,000 objects, 4 units"


def test_cells() -> None:
    rnd = random.Random(3)
    for _ in range(300):
        lon, lat = rnd.choice((-180.0, 180.0, 0.0, rnd.uniform(-180, 180))), rnd.uniform(-90, 90)
        side = rnd.choice((0.0, 1e-4, 0.1, 5.0, 90.0))
        box = (max(lon - side, -180.0), max(lat - side / 2, -90.0), min(lon + side, 180.0), min(lat + side, 90.0))
        cell = find_index_cell(box, lon, lat)
        width = 360.0 / (1 << cell.level)
        assert cell.cell >> (2 * cell.level) == 1
        assert cell.level == 0 or width >= max(box[2] - box[0], box[3] - box[1])
        assert cell.column * width - 180.0 <= lon <= (cell.column + 1) * width - 180.0
        assert cell.row * width - 90.0 <= lat <= (cell.row + 1) * width - 90.0


def test_units() -> None:
    plan = shared_by_text()
    dispatch = DispatchIndex(plan)
    rnd = random.Random(4)
    for term in (5, 9, 7, 8, -3, -(2**63), 2**63 - 1, *(rnd.getrandbits(63) for _ in range(20))):
        lon, lat = rnd.uniform(-180, 180), rnd.uniform(-90, 90)
        owner = units_of(dispatch, np.array([lon]), np.array([lat]), np.array([term], np.int64))
        assert plan.find_unit(lon, lat, {term}, term) == owner[0]


def test_rarest_clause() -> None:
    rnd = random.Random(5)
    frequencies = {term: rnd.randrange(4) for term in range(8)}
    lookup = np.array([*frequencies.values(), 0, 0])
    for _ in range(200):
        clauses = tuple(tuple(rnd.sample(range(10), rnd.randint(1, 3))) for _ in range(rnd.randint(1, 4)))
        rows = pa.array([clauses], pa.list_(pa.list_(pa.int64())))
        ordered, _, _ = rarest_clause_first(rows, lambda terms: lookup[terms])
        assert tuple(ordered.to_pylist()[0][0]) == find_rarest_clause(clauses, frequencies)
