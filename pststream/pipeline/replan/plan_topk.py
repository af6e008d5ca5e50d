"""Make a new version of the plan of `topk` subscriptions (`pststream plan --planner location`), or undo one.

A plan version covers both plans of a home. A new plan of `topk` makes a version whose plan of the other kinds is the
one in force: the same units, index and retiring plan. Nothing migrates, since the indexes of units are derived data of
nodes (`pipeline/answers/unit_candidates.py`); the batches from then on are searched by the new units.

The plan and the units are written first; the row in `plans` puts both in force. A killed run leaves rows of a version
without a row in `plans`; the next run deletes them.
"""

import time
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import RetryableError, UsageError
from pststream.base.progress import Progress, no_progress
from pststream.base.utc_times import utc_now
from pststream.pipeline.answers.unit_candidates import draw_topk_sample
from pststream.pipeline.planning.plan import delete_rows_of_killed_planner, first_plan
from pststream.planning.papers.topk_planners import make_topk_plan, plan_levels
from pststream.planning.papers.topk_sample import TopkSample, count_loads
from pststream.plans.imbalance import finite_imbalance
from pststream.settings import Settings, read_planner_options
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.home import Home
from pststream.state.plans import (
    current_version,
    read_plan_row,
    retiring_plan,
    save_topk_plan,
    topk_planner_of,
    topk_version_of,
)
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import Ledger


def plan_topk(
    home: Home,
    settings: Settings,
    planner: str | None = None,
    *,
    options: str | None = None,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Make a plan of `topk` with a planner (`names.TOPK_PLANNERS`) for `settings.workers`.

    planner  None: that of the plan of `topk` in force
    options  of the planner, as `plan --option` takes them; None: those of the plan in force, if this planner made it

    Returns {"plan_version", "plan_version_before", "planner", "kinds": ["topk"], "units", "replication", "copies",
    "imbalance" (None if a unit has no load), "unit_loads", "dry_run", "seconds"}, what `pststream plan --json` prints;
    of `hash` there are as many units as answer buckets, and no figures. Raises HomeError if `topk_plans` has lost the
    plan in force, unless the planner is `hash`.
    """
    home.check()
    began = time.perf_counter()
    with home.locked():
        if Ledger(home).unfinished_batch() is not None:
            raise RetryableError("a batch is unfinished", "run: pststream match, then plan again")
        before = current_version(home)
        planner, options = _choose_planner(home, before, planner, options)
        plan_levels(planner, settings.workers, read_planner_options(options))
        if before == 0:
            if dry_run:
                raise UsageError("there is no plan yet", "run: pststream match, which makes the first one")
            before = first_plan(home, settings, progress=progress)["plan_version"]
        version = before + 1
        if planner == names.BY_BUCKET:
            figures: dict[str, Any] = {"units": home.answer_buckets}
            if not dry_run:
                delete_rows_of_killed_planner(home, version)
                put_in_force(home, version, None)
        else:
            sample = draw_topk_sample(home, settings, progress).sample
            figures = _plan_by_sample(home, settings.workers, planner, options, sample, version, dry_run)
    return {
        "plan_version": version, "plan_version_before": before, "planner": planner, "kinds": ["topk"], **figures,
        "dry_run": dry_run, "seconds": round(time.perf_counter() - began, 3),
    }  # fmt: skip


def _choose_planner(home: Home, before: int, planner: str | None, options: str | None) -> tuple[str, str]:
    """Return a planner and its options; those that are None are taken from the plan of `topk` in force.

    `hash` needs nothing of that plan, so it also repairs a home that has lost the plan.
    """
    if planner == names.BY_BUCKET:
        return planner, options or ""
    in_force, known_options = topk_planner_of(home, before)
    planner = planner or in_force
    if options is None:
        options = known_options if planner == in_force else ""
    return planner, options


def _plan_by_sample(
    home: Home, workers: int, planner: str, options: str, sample: TopkSample, version: int, dry_run: bool
) -> dict[str, Any]:
    """Make the plan of a sample, write it unless in a dry run, and return its figures."""
    began = time.perf_counter()
    plan = make_topk_plan(planner, sample, workers, read_planner_options(options))
    loads = count_loads(sample, plan)
    figures: dict[str, Any] = {
        "replication": round(loads.replication, 4), "copies": round(loads.copies, 4),
        "imbalance": finite_imbalance(loads.imbalance, None), "unit_loads": loads.load.tolist(),
    }  # fmt: skip
    if not dry_run:
        delete_rows_of_killed_planner(home, version)
        kept = {name: figures[name] for name in ("replication", "copies", "unit_loads")}
        sizes = {"sample_subscriptions": sample.subscriptions, "sample_objects": sample.messages}
        seconds = {"seconds": time.perf_counter() - began}
        save_topk_plan(home, version, plan, {**kept, **seconds}, {**sizes, "planner_options": options})
        put_in_force(home, version, version)
    return {"units": plan.units, **figures}


def put_in_force(home: Home, version: int, topk_version: int | None) -> None:
    """Write a plan version with the plan before it for all kinds but `topk`; topk_version None: search by bucket."""
    for table in (names.PLAN_UNITS, names.PLAN_NODES):
        rows = read_table(home.table(table), filter=pds.field("plan_version") == version - 1)
        index = rows.schema.get_field_index("plan_version")
        rows = rows.set_column(index, "plan_version", pa.array([version] * rows.num_rows, pa.int64()))
        if rows.num_rows:
            ledger_tables.append(home, table, rows)
    crash_point("plan.topk_written")
    row = {**read_plan_row(home, version - 1), "plan_version": version, "topk_version": topk_version}
    ledger_tables.append(home, names.PLANS, [{**row, "created_at": utc_now()}])
    crash_point("plan.done")


REASON = "undo of topk"


def is_change_of_topk(home: Home, version: int) -> bool:
    """Whether a plan version was made by `plan` to change the plan of `topk`, and by no migration or undo."""
    if topk_version_of(home, version) == topk_version_of(home, version - 1):
        return False
    of_version = pds.field("plan_version") == version
    return not read_table(home.table(names.MIGRATIONS), ["plan_version"], of_version).num_rows


def undo_topk(home: Home, version: int, dry_run: bool) -> dict[str, Any]:
    """Return to the plan of `topk` before `version`, which has changed it; return the document of `balance`.

    The undo is a new plan version that names the plan of `topk` before. A row of `migrations` records it, so it is
    listed by `balance history` and not undone in turn.
    """
    topk = topk_version_of(home, version - 1)
    moved = {"expected_gain": 0.0, "load_before": [], "load_after": []}
    if not dry_run:
        delete_rows_of_killed_planner(home, version + 1)
        row = {
            "plan_version": version + 1, "plan_version_before": version, "kind": "undo", "move": 0, "reason": REASON,
            "origin": -1, "target": -1, "cells": [], "terms": None, "subscriptions": 0, "bytes": 0, **moved,
            "decided_at": utc_now(),
        }  # fmt: skip
        ledger_tables.append(home, names.MIGRATIONS, [row])
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
        "least_bytes": None,
        **moved,
        "moves": [],
    }
