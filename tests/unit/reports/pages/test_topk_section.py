"""The pages show the plan of `topk` in force: its units, predicted and measured, and its parts of the space."""

from pathlib import Path

import pytest

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.reports.commands.topk_plan import show_topk_plan
from pststream.reports.pages.overview_page import read_overview, render_overview
from pststream.reports.pages.report_page import read_report, render_report
from pststream.state.home import Home
from tests.damage import delete_rows
from tests.topk_plans import add_topk_loads, add_topk_plan, topk_row
from tests.unit.reports.commands.homes import add_plan, copy_of, halves
from tests.unit.reports.pages.test_report_page import Elements


@pytest.fixture(scope="module")
def home(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a plan of `topk` of three parts of the space, each divided into two units, and two batches."""
    home = copy_of(empty_home, tmp_path_factory.mktemp("topk") / "home")
    add_plan(home, halves())
    levels = {"first": 3, "second": 2, "space_cuts": [50.0, -10.0], "unit_loads": [4.0, 1.0, 2.0, 1.0, 1.0, 1.0]}
    add_topk_plan(home, topk_row("spatial_first", 6) | levels)
    add_topk_loads(home, 1, 2, [(7, 30, 0.5)] * 6)
    add_topk_loads(home, 2, 2, [(1000 * unit, 20 + unit, 0.25) for unit in range(5)])
    add_topk_loads(home, 2, 1, [(9, 9, 9.0)])
    return home


def test_measured_loads_are_added_up_and_stored_subscriptions_are_those_of_the_last_batch(home: Home) -> None:
    shown = show_topk_plan(home)
    assert (shown["measured_batches"], shown["measured_imbalance"]) == (2, 1.5)
    assert shown["unit_seconds"] == [0.75] * 5 + [0.5]
    assert shown["unit_objects"] == [7, 1007, 2007, 3007, 4007, 7]
    assert shown["unit_subscriptions"] == [20, 21, 22, 23, 24, 30]


def test_a_unit_without_load_makes_the_imbalance_null(hand_home: Home) -> None:
    add_plan(hand_home, halves())
    add_topk_plan(hand_home, topk_row("keyword_first", 4) | {"unit_loads": [1.0, 2.0, 0.0, 1.0]})
    assert show_topk_plan(hand_home)["imbalance"] is None
    assert "Predicted imbalance (greatest load over the least): infinite" in render_report(read_report(hand_home.path))


def test_pages_have_a_row_for_each_unit_and_an_area_for_each_part_of_the_space(home: Home) -> None:
    report, overview = read_report(home.path), read_overview(home.path)
    assert report.problems == overview.problems == []
    for page in (render_report(report), render_overview(overview)):
        text = " ".join(" ".join(Elements(page).texts).split())
        assert "Unit 0 40.0 % 0.75 7 20 Unit 1 10.0 % 0.75 1,007 21" in text and "Unit 6" not in text
        assert "Plan 2 by spatial_first, 6 units: 3 parts of the space, each divided by words into 2." in text
        assert "Measured imbalance, of CPU time in 2 batches: 1.5." in text
        tips = [leaf["data-tip"] or "" for leaf in Elements(page).of("leaf")]
        parts = [tip.splitlines() for tip in tips if "topk" in tip]
        assert parts[0] == ["Plan of topk, units 0 to 1", "Predicted: 50.0\u202f% of the load"] and len(parts) == 3
        assert "parts of the space of the plan of topk" in text and 'data-layer="topk-parts"' in page


def test_a_plan_that_divides_words_first_has_no_parts_on_the_map(hand_home: Home) -> None:
    add_plan(hand_home, halves())
    assert "Plan of topk" not in render_report(read_report(hand_home.path))
    add_topk_plan(hand_home, topk_row("keyword_first", 4))
    page = render_report(read_report(hand_home.path))
    assert "Unit 3" in page and "topk-part" not in "".join(str(tag) for tag in Elements(page).tags)
    delete_rows(hand_home, names.TOPK_PLANS, "plan_version = 2")
    report = read_report(hand_home.path)
    assert "plan of topk of version 2 is missing" in report.problems[0]
    assert "Plan of topk" not in render_report(report)
    with pytest.raises(UsageError, match="is missing"):
        show_topk_plan(hand_home)
