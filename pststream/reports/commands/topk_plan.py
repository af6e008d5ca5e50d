"""Show the plan of `topk` that is in force under a plan version: its parts, its figures and the loads of units."""

import json
from typing import Any

import numpy as np
import pyarrow.dataset as pds

from pststream import names
from pststream.domain.imbalance import imbalance_of, imbalance_text
from pststream.errors import UsageError
from pststream.format_values import counted, duration
from pststream.reports.commands.text_tables import table_lines
from pststream.reports.reading.table_reader import AnyHome, TableReader
from pststream.utc_times import iso

FIGURES = (
    *("planner", "way", "first", "second", "is_prefix", "replication", "copies", "unit_loads", "options", "seconds"),
    "created_at",
)

SHOWN_UNITS = 20


def read_topk_planners(reader: TableReader) -> dict[int | None, str]:
    """Return the planner of each version of `topk_plans`, and of None."""
    rows = reader.read(names.TOPK_PLANS, ("plan_version", "planner")).to_pylist()
    return {None: names.BY_BUCKET} | {row["plan_version"]: row["planner"] for row in rows}


def show_topk_plan(home: AnyHome, version: int | None = None) -> dict[str, Any]:
    """Return the plan of `topk` under a plan version (None: the current one).

    {"plan_version", "kinds": ["topk"], "topk_version": the version that was made for it, "planner"}; of other planners
    than `hash` also the columns of `topk_plans` without cuts and words, "imbalance" of the loads of units, and what
    batches have measured: "measured_batches", "unit_seconds" (CPU seconds of the search of each) and
    "measured_imbalance".

    Raises UsageError if there is no such plan.
    """
    reader = TableReader(home)
    wanted = None if version is None else pds.field("plan_version") == version
    rows = reader.read(names.PLANS, ("plan_version", "topk_version"), wanted).sort_by("plan_version").to_pylist()
    if not rows:
        raise UsageError(
            f"there is no plan {version or ''}".strip(), "pststream plans list shows the plans of the home"
        )
    shown = {"plan_version": rows[-1]["plan_version"], "kinds": ["topk"], "topk_version": rows[-1]["topk_version"]}
    if shown["topk_version"] is None:
        return shown | {"planner": names.BY_BUCKET}
    made = reader.read(names.TOPK_PLANS, FIGURES, pds.field("plan_version") == shown["topk_version"]).to_pylist()[0]
    made |= {"options": json.loads(made["options"]), "created_at": iso(made["created_at"])}
    measured = _measured(reader, shown["topk_version"], len(made["unit_loads"]))
    return shown | made | {"imbalance": imbalance_of(made["unit_loads"]), **measured}


def _measured(reader: TableReader, version: int, units: int) -> dict[str, Any]:
    """Return the sums over the batches that searched the units of a plan."""
    of_plan = (pds.field("worker") == names.UNIT_OF_TOPK) & (pds.field("plan_version") == version)
    rows = reader.read(names.UNIT_LOADS, ("batch_id", "unit", "cpu_seconds"), of_plan)
    seconds = np.bincount(rows.column("unit").to_numpy(), rows.column("cpu_seconds").to_numpy(), units)
    return {
        "measured_batches": len(rows.column("batch_id").unique()),
        "unit_seconds": seconds.tolist(),
        "measured_imbalance": imbalance_of(seconds),
    }


def _render_measured(plan: dict[str, Any]) -> list[str]:
    if not plan["measured_batches"]:
        return []
    batches = counted(plan["measured_batches"], "batch", "batches")
    return [
        f"measured in {batches}: imbalance {imbalance_text(plan['measured_imbalance'])} (CPU seconds of the search)"
    ]


def render_topk_plan(plan: dict[str, Any]) -> str:
    """Render the plan as text."""
    head = f"plan {plan['plan_version']}, topk: {plan['planner']}"
    if plan["topk_version"] is None:
        return f"{head}; candidates are found by answer bucket"
    loads = plan["unit_loads"]
    rows: list[tuple[str, ...]] = [("unit", "load", "CPU s")]
    units = list(zip(loads, plan["unit_seconds"]))
    rows += [(str(unit), f"{load:.4g}", f"{seconds:.4g}") for unit, (load, seconds) in enumerate(units[:SHOWN_UNITS])]
    more = len(loads) - SHOWN_UNITS
    levels = {"space_first": ("of the space", "by words"), "words_first": ("of words", "by the space")}[plan["way"]]
    return "\n".join(
        [
            f"{head}, {counted(len(loads), 'unit')}: {counted(plan['first'], 'part')} {levels[0]}, each divided"
            f" {levels[1]} into {plan['second']}; made at {plan['created_at'][:19]} in {duration(plan['seconds'])}",
            f"{plan['replication']:.3g} units a subscription, {plan['copies']:.3g} units an object, imbalance"
            f" {imbalance_text(plan['imbalance'])} (subscriptions x share of the objects, on the sample)",
            *_render_measured(plan),
            "",
            *table_lines(rows),
            *([f"... and {counted(more, 'unit')} more"] if more > 0 else []),
        ]
    )
