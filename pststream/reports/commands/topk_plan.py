"""Show the plan of `topk` that is in force under a plan version: its parts, its figures and the loads of units."""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.errors import UsageError
from pststream.base.texts import counted, duration, table_lines, whole
from pststream.base.utc_times import iso
from pststream.plans.imbalance import finite_imbalance, imbalance_of, imbalance_text
from pststream.tables.delta_tables import AnyHome, TableReader

FIGURES = (
    *("planner", "way", "first", "second", "is_prefix", "space_cuts", "replication", "copies", "unit_loads", "options"),
    *("seconds", "created_at"),
)

SHOWN_UNITS = 20


def read_topk_planners(reader: TableReader) -> dict[int | None, str]:
    """Return the planner of each version of `topk_plans`, and of None."""
    rows = reader.read(names.TOPK_PLANS, ("plan_version", "planner")).to_pylist()
    return {None: names.BY_BUCKET} | {row["plan_version"]: row["planner"] for row in rows}


def show_topk_plan(home: AnyHome, version: int | None = None) -> dict[str, Any]:
    """Read the plan of `topk` under a plan version, see `read_topk_plan`."""
    return read_topk_plan(TableReader(home), version)


def read_topk_plan(reader: TableReader, version: int | None = None, since: int = 0) -> dict[str, Any]:
    """Return the plan of `topk` under a plan version (None: the current one).

    {"plan_version", "kinds": ["topk"], "topk_version": the version that was made for it, "planner"}; of other planners
    than `hash` also the columns of `topk_plans` without words and their cuts, "imbalance" of the loads of units, and
    what batches from `since` on have measured: "measured_batches", of each unit "unit_seconds" (CPU seconds of the
    search), "unit_objects" (sent to it) and "unit_subscriptions" (stored by it in its last batch), and
    "measured_imbalance". An imbalance is None while a unit is idle.

    Raises UsageError if there is no such plan.
    """
    wanted = None if version is None else pds.field("plan_version") == version
    rows = reader.read(names.PLANS, ("plan_version", "topk_version"), wanted).sort_by("plan_version").to_pylist()
    if not rows:
        problem = f"there is no plan {version or ''}".strip()
        raise UsageError(problem, "pststream plans list shows the plans of the home")
    shown = {"plan_version": rows[-1]["plan_version"], "kinds": ["topk"], "topk_version": rows[-1]["topk_version"]}
    if shown["topk_version"] is None:
        return shown | {"planner": names.BY_BUCKET}
    rows = reader.read(names.TOPK_PLANS, FIGURES, pds.field("plan_version") == shown["topk_version"]).to_pylist()
    if not rows:
        raise UsageError(f"the plan of topk of version {shown['topk_version']} is missing", "run: pststream check")
    made = rows[0]
    made |= {"options": json.loads(made["options"]), "created_at": iso(made["created_at"])}
    measured = _measured(reader, shown["topk_version"], since, len(made["unit_loads"]))
    return shown | made | {"imbalance": finite_imbalance(imbalance_of(made["unit_loads"]), None), **measured}


def _measured(reader: TableReader, version: int, since: int, units: int) -> dict[str, Any]:
    """Return the sums over the batches that searched the units of a plan."""
    of_plan = (pds.field("worker") == names.UNIT_OF_TOPK) & (pds.field("plan_version") == version)
    of_plan &= pds.field("batch_id") >= since
    rows = reader.read(names.UNIT_LOADS, ("batch_id", "unit", "objects", "subscriptions", "cpu_seconds"), of_plan)
    batch, unit, objects, stored, seconds = (column.to_numpy() for column in rows.sort_by("batch_id").columns)
    subscriptions = np.zeros(units, np.int64)
    subscriptions[unit] = stored  # of equal units the last batch
    seconds = np.bincount(unit, seconds, units)
    return {
        "measured_batches": len(distinct_values(batch)),
        "unit_seconds": seconds.tolist(),
        "unit_objects": np.bincount(unit, objects, units).astype(np.int64).tolist(),
        "unit_subscriptions": subscriptions.tolist(),
        "measured_imbalance": finite_imbalance(imbalance_of(seconds)),
    }


def name_plan(version: int | None) -> str:
    """Return the name of a plan version; None: a plan that the home does not have."""
    return "a new plan" if version is None else f"plan {version}"


def describe_units(plan: Mapping[str, Any]) -> str:
    """Describe how the units of a plan divide space and words."""
    of, by = {"space_first": ("of the space", "by words"), "words_first": ("of words", "by the space")}[plan["way"]]
    units, parts = counted(len(plan["unit_loads"]), "unit"), counted(plan["first"], "part")
    return f"{units}: {parts} {of}, each divided {by} into {plan['second']}"


def render_topk_plan(plan: dict[str, Any]) -> str:
    """Render the plan as text."""
    head = f"{name_plan(plan['plan_version'])}, topk: {plan['planner']}"
    if plan["planner"] == names.BY_BUCKET:
        return f"{head}; candidates are found by answer bucket"
    loads = plan["unit_loads"]
    rows: list[tuple[str, ...]] = [("unit", "load", "CPU s", "objects", "subscriptions")]
    units = zip(loads, plan["unit_seconds"], plan["unit_objects"], plan["unit_subscriptions"])
    for unit, (load, seconds, objects, stored) in enumerate(islice(units, SHOWN_UNITS)):
        rows.append((str(unit), f"{load:.4g}", f"{seconds:.4g}", whole(objects), whole(stored)))
    lines = [
        f"{head}, {describe_units(plan)}; made at {plan['created_at'][:19]} in {duration(plan['seconds'])}",
        f"{plan['replication']:.3g} units a subscription, {plan['copies']:.3g} units an object, imbalance"
        f" {imbalance_text(plan['imbalance'])} (subscriptions x share of the objects, on the sample)",
    ]
    if plan["measured_batches"]:
        measured = f"imbalance {imbalance_text(plan['measured_imbalance'])} (CPU seconds of the search)"
        lines.append(f"measured in {counted(plan['measured_batches'], 'batch', 'batches')}: {measured}")
    lines += ["", *table_lines(rows)]
    if (more := len(loads) - SHOWN_UNITS) > 0:
        lines.append(f"... and {counted(more, 'unit')} more")
    return "\n".join(lines)
