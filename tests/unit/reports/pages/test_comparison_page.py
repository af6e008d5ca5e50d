"""The pages of an adjustment and of a comparison of planners, the latter also as text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.plans.plan import DispatchGrid, PartitionPlan, space_plan, text_plan
from pststream.plans.plan_moves import Move, apply_move
from pststream.reports.commands.comparisons import describe_best, render_comparison
from pststream.reports.pages.adjustment_page import write_adjustment, write_comparison
from pststream.reports.plots.plan_map import BY_TEXT, compare_cells
from tests.plans import TERMS, plans, quarters

GRID = DispatchGrid(0.0, 0.0, 2.0, 2.0, 2, 2)


def adjustment_document(kind: str = "local", **changed: Any) -> dict[str, Any]:
    return {
        "kind": kind, "dry_run": True, "plan_version_before": 3, "plan_version_after": 4, "reason": "measured <b>3",
        "measured_imbalance": 3.125, "moved_subscriptions": 12345, "moved_bytes": 2_500_000, "expected_gain": 0.25,
        "load_before": [4.0, 2.0], "load_after": [3.0, 3.0],
        "moves": [{"origin": 0, "target": 1, "cells": 1, "terms": 7, "reason": "split"}],
    } | changed  # fmt: skip


def worker_of(plan: PartitionPlan, cell: int, term: int) -> int:
    """Read off the arrays, one pair at a time."""
    leaf = plan.cell_leaf[cell]
    if plan.leaf_unit[leaf] >= 0:
        return int(plan.unit_worker[plan.leaf_unit[leaf]])
    named = slice(plan.term_offsets[leaf], plan.term_offsets[leaf + 1])
    units = plan.spread_unit[plan.spread_offsets[leaf] : plan.spread_offsets[leaf + 1]]
    found = np.flatnonzero(plan.terms[named] == term)
    unit = plan.term_unit[named][found[0]] if len(found) else units[term % 2**64 % len(units)]
    return int(plan.unit_worker[unit])


@given(plans(), st.data())
def test_cells_that_do_not_change_serve_every_term_as_before(plan: PartitionPlan, data: st.DataObject) -> None:
    worker = st.integers(0, plan.workers - 1)
    cells = data.draw(st.lists(st.integers(0, plan.grid.cells - 1), min_size=1, unique=True).map(sorted))
    after = apply_move(plan, Move(data.draw(worker), data.draw(worker), np.array(cells)))
    change = compare_cells(plan, after)
    terms = [*TERMS, *after.terms.tolist()]
    differs = [any(worker_of(plan, c, t) != worker_of(after, c, t) for t in terms) for c in range(plan.grid.cells)]
    assert not (np.array(differs) & ~change.changed).any()
    assert not compare_cells(plan, plan).changed.any()


def test_a_cell_is_compared_with_that_of_the_earlier_raster_at_its_middle() -> None:
    before = space_plan("grid", DispatchGrid(0.0, 0.0, 2.0, 2.0, 1, 2), np.array([0, 1]), np.array([0, 1]), 2)
    after = space_plan("grid", GRID, np.arange(4), np.array([0, 1, 1, 1]), 2)
    change = compare_cells(before, after)
    assert change.before.tolist() == [0, 0, 1, 1]
    assert change.after.tolist() == [0, 1, 1, 1]
    assert change.changed.tolist() == [False, True, False, False]


def test_terms_that_change_worker_change_the_cell() -> None:
    terms = np.array([1, 5])
    before, after = (text_plan("frequency", GRID, terms, np.array(w), 2) for w in ([0, 1], [1, 1]))
    change = compare_cells(before, after)
    assert change.changed.all() and (change.after == BY_TEXT).all()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "new" / "page.html"


def test_the_page_shows_the_document(page: Path) -> None:
    before = quarters()
    after = apply_move(before, Move(0, 3, np.flatnonzero(before.cell_leaf == 0)[:1]))
    write_adjustment(page, "/home/<script>", adjustment_document(), before, after)
    text = page.read_text("utf-8")
    for part in ("Load adjustment: plan 3 to 4", "proposed, nothing changed yet", "12,345", "7 terms of 1 cell", "3.12",
                 "Measured &lt;b&gt;3", "&lt;script&gt;", "split by text", "From worker 0 to worker 3"):  # fmt: skip
        assert part in text, part
    assert "<script>" not in text.partition("<body>")[2].rpartition("<script>")[0]


def test_a_repartition_lists_the_cells_between_each_two_workers(page: Path) -> None:
    before, after = (space_plan("kd_tree", GRID, np.arange(4), np.array(w), 2) for w in ([0, 0, 1, 1], [0, 1, 0, 1]))
    moves = [{"origin": -1, "target": -1, "cells": 4, "terms": None, "reason": "kd_tree"}]
    write_adjustment(page, "h", adjustment_document("global", moves=moves, dry_run=False), before, after)
    text = page.read_text("utf-8")
    assert "Repartition: plan 3 to 4" in text and "applied" in text
    assert text.count("1 cell</td>") == 2


def test_a_worker_without_load_and_a_plan_that_stays_can_be_shown(page: Path) -> None:
    plan = quarters()
    idle = adjustment_document("retire", moves=[], load_before=[1.0, 0.0], load_after=[0.0, 0.0], expected_gain=0.0)
    write_adjustment(page, "h", idle, plan, plan)
    assert "infinite (idle worker) → 1<" in page.read_text("utf-8")


def figures(planner: str, throughput: int, seconds: list[float], **changed: Any) -> dict[str, Any]:
    return {
        "planner": planner, "throughput": throughput, "worker_seconds": seconds, "load_total": sum(seconds),
        "max_seconds": max(seconds), "imbalance": 1.5, "copies": 1.25, "subscriptions_stored": 12_345_678,
        "discarded": 7, "dispatch_seconds": 0.5, "dispatch_bytes": 1_000, "worker_bytes": 2_000, "units": 8,
        "seconds": 0.25, "model_total": 3.5, "model_imbalance": 1.25, "model_correlation": None, **changed,
    }  # fmt: skip


def document(*plans: dict[str, Any]) -> dict[str, Any]:
    return {"plans": list(plans), "workers": 2, "objects": 1, "requests": 2_000, "matches": 1}


def test_the_best_planner_is_named_with_what_makes_the_difference() -> None:
    best, next_one = figures("hybrid", 1_500, [1.0, 1.0]), figures("grid", 1_000, [2.0, 1.0])
    text = render_comparison(document(best, next_one))
    assert (
        "hybrid is best: 1,500 tuples/s over 2 workers, 50% ahead of grid (CPU seconds in all 2.0 against 3.0)." in text
    )
    assert describe_best(document(best)) == "hybrid is best: 1,500 tuples/s over 2 workers."
    same = {**next_one, "load_total": 2.0}
    assert describe_best(document(best, same)).endswith("(its most loaded worker has less to do).")


def test_an_idle_worker_is_the_worst_imbalance() -> None:
    best, idle = figures("hybrid", 1_500, [1.0, 1.0]), figures("grid", 1_000, [2.0, 0.0], imbalance=None)
    assert "imbalance 1.5 against infinite (idle worker))" in describe_best(document(best, idle))
    assert "imbalance" not in describe_best(document(idle, best)) + describe_best(document(idle, idle))
    text = render_comparison(document(best, {**idle, "model_imbalance": None}))
    assert text.count("infinite (idle worker)") == 3, "both figures of the table, and the verdict"


def test_the_page_has_every_planner_and_worker(tmp_path: Path) -> None:
    hostile = figures("<b>grid", 1_000, [2.0, 1.0])
    write_comparison(document(figures("hybrid", 1_500, [1.0, 0.0]), hostile), str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "Each plan processed 1 object and 2,000 requests, with the same 1 match." in page
    assert "&lt;b&gt;grid" in page and "<b>" not in page
    assert "1,500 tuples/s" in page and "--part:66.7%" in page and ">2.000<" in page


def test_a_comparison_without_work_can_be_shown(tmp_path: Path) -> None:
    write_comparison(document(figures("grid", 0, [0.0, 0.0])), str(tmp_path / "page.html"))
    assert "--part:0.0%" in (tmp_path / "page.html").read_text("utf-8")
