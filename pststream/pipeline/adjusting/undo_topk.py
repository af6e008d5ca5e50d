"""Undo a change of the plan of `topk` subscriptions (`pststream balance undo`).

Nothing migrates under such a plan, so the undo is a new plan version that names the plan of `topk` before. A row of
`migrations` records it, so it is listed by `balance history` and not undone in turn.
"""

from typing import Any

import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import read_table
from pststream.pipeline.adjusting.plan_topk import put_in_force
from pststream.pipeline.planning.plan import delete_rows_of_killed_planner
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.state.plans import read_plan_row, retiring_plan, topk_version_of
from pststream.utc_times import utc_now

REASON = "undo of topk"


def is_change_of_topk(home: Home, version: int) -> bool:
    """Whether a plan version was made by `plan` to change the plan of `topk`, and by no migration or undo."""
    if topk_version_of(home, version) == topk_version_of(home, version - 1):
        return False
    of_version = pds.field("plan_version") == version
    return not read_table(home.table(names.MIGRATIONS), ["plan_version"], of_version).num_rows


def undo_topk(home: Home, version: int, dry_run: bool) -> dict[str, Any]:
    """Return to the plan of `topk` before `version`, which has changed it; return the document of `balance`."""
    topk = topk_version_of(home, version - 1)
    moved = {"expected_gain": 0.0, "load_before": [], "load_after": []}
    if not dry_run:
        delete_rows_of_killed_planner(home, version + 1)
        ledger_tables.append(home, names.MIGRATIONS, [_migration_row(version, moved)])
        put_in_force(home, version + 1, topk)
    retiring = retiring_plan(read_plan_row(home, version))
    before = "by answer bucket" if topk is None else f"under the plan of version {topk}"
    return {
        "plan_version_before": version,
        "plan_version_after": version + 1,
        "retiring_version": retiring.plan_version if retiring else None,
        "reason": f"topk is searched {before} again",
        "measured_imbalance": None,
        "moved_subscriptions": 0,
        "moved_bytes": 0,
        **moved,
        "moves": [],
    }


def _migration_row(version: int, moved: dict[str, Any]) -> dict[str, Any]:
    return {
        "plan_version": version + 1, "plan_version_before": version, "kind": "undo", "move": 0, "reason": REASON,
        "origin": -1, "target": -1, "cells": [], "terms": None, "subscriptions": 0, "bytes": 0, **moved,
        "decided_at": utc_now(),
    }  # fmt: skip
