"""The row of a plan is that of the table as it is now, whatever this process has read before."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from pststream.plans.plan import DispatchGrid, space_plan
from pststream.state.home import Home
from pststream.state.plans import current_version, find_plan_row, save_plan

PLAN = space_plan("grid", DispatchGrid(0.0, 0.0, 1.0, 1.0, 1, 1), np.zeros(1), np.zeros(1), 1)


def figures(seconds: float) -> dict[str, Any]:
    loads = {"load_total": 1.0, "load_max": 1.0, "load_min": 1.0, "imbalance": 1.0, "worker_loads": [1.0]}
    return {**loads, "options": {}, "seconds": seconds}


def seconds_of(home: Home, version: int) -> float | None:
    row = find_plan_row(home, version)
    return row and row["seconds"]


def test_a_row_is_found_once_it_is_written(hand_home: Home) -> None:
    assert (current_version(hand_home), find_plan_row(hand_home, 1)) == (0, None)
    for version in (1, 2):
        save_plan(hand_home, version, PLAN, figures(version))
        assert current_version(hand_home) == version
        assert [seconds_of(hand_home, one) for one in (1, 2, 3)] == [1.0, [None, 2.0][version - 1], None]


def test_a_caller_may_change_the_row_that_it_gets(hand_home: Home) -> None:
    save_plan(hand_home, 1, PLAN, figures(1))
    row = find_plan_row(hand_home, 1)
    assert row is not None
    row["worker_loads"].append(2.0)
    assert find_plan_row(hand_home, 1) == {**row, "worker_loads": [1.0]}


def test_a_plan_that_a_restore_has_undone_is_not_found(hand_home: Home, tmp_path: Path) -> None:
    """After the restore another plan gets the number, and the table the version, that the undone one had."""
    save_plan(hand_home, 1, PLAN, figures(1))
    shutil.copytree(hand_home.path, tmp_path / "backup")
    save_plan(hand_home, 2, PLAN, figures(2))
    assert seconds_of(hand_home, 2) == 2.0
    shutil.rmtree(hand_home.path)
    shutil.copytree(tmp_path / "backup", hand_home.path)
    save_plan(hand_home, 2, PLAN, figures(3))
    assert seconds_of(hand_home, 2) == 3.0
