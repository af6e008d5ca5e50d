"""List the plans of a home, their moves and measured imbalance; show one, also of `topk`: figures, units, a map."""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.arrow_columns import sum_column
from pststream.base.errors import UsageError
from pststream.base.texts import counted, duration, table_lines, whole
from pststream.base.utc_times import iso
from pststream.plans.imbalance import finite_imbalance, imbalance_of, imbalance_text
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_rows import (
    GRID_COLUMNS,
    NODE_COLUMNS,
    UNIT_COLUMNS,
    describe_choice,
    nodes_from_rows,
    plan_from_rows,
)
from pststream.tables.delta_tables import AnyHome, TableReader
from pststream.tables.ledgers import LedgerHistory

TOPK_FIGURES = (
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
    rows = reader.read(names.TOPK_PLANS, TOPK_FIGURES, pds.field("plan_version") == shown["topk_version"]).to_pylist()
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


NO_OPTIONS = "defaults"

FIGURES = (
    "plan_version", "planner", "workers", "units", "load_total", "load_max", "load_min", "imbalance", "seconds",
    "created_at", "retiring_version", "retiring_to", "topk_version",
)  # fmt: skip
_UNITS = (*UNIT_COLUMNS, "load", "objects", "subscriptions")
MAX_UNITS = 200
MAP_COLUMNS, MAP_ROWS = 60, 20
WORKER_SIGNS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
SHARED = "*"


def list_plans(home: AnyHome) -> list[dict[str, Any]]:
    """List the figures of every plan, oldest first.

    `current` marks the plan in force, `retiring` the plan that still serves the older subscriptions; `topk_planner` is
    the planner of the plan of `topk` under that version.
    """
    reader = TableReader(home)
    rows = reader.read(names.PLANS, (*FIGURES, "options")).sort_by("plan_version").to_pylist()
    topk_planners = read_topk_planners(reader)
    current = rows[-1] if rows else {}
    return [
        {
            **_figures(row),
            "topk_planner": topk_planners[row["topk_version"]],
            "current": row is current,
            "retiring": row["plan_version"] == current["retiring_version"],
        }
        for row in rows
    ]


def show_plan(home: AnyHome, version: int | None = None) -> dict[str, Any]:
    """Show one plan (None: the current one): figures, its most loaded units, and a map of its workers as text.

    units_shown  at most MAX_UNITS, the most loaded first; bounds of the leaf in degrees (a leaf at the edge of the
                 raster also serves points beyond it); terms: number of terms that it serves by name, None for all
    map          lines from north to south; a character is the worker at the middle of a block (WORKER_SIGNS, which
                 repeats), SHARED if several workers share the leaf
    Raises UsageError if there is no such plan.
    """
    reader = TableReader(home)
    row, plan, units = read_plan(reader, version)
    bounds = _bounds(plan)
    order = np.argsort(-units.column("load").to_numpy(), kind="stable")[:MAX_UNITS]
    shown = units.select([name for name in _UNITS if name not in ("cell_runs", "terms")]).take(order).to_pylist()
    term_counts = units.column("terms").take(order).combine_chunks().value_lengths().to_pylist()
    return {
        **_figures(row),
        "worker_loads": row["worker_loads"],
        "options": json.loads(row["options"]),
        "grid": {name: row[name] for name in GRID_COLUMNS},
        "leaves": plan.leaves,
        "units_shown": [{**unit, **bounds[unit["leaf"]], "terms": terms} for unit, terms in zip(shown, term_counts)],
        "map": draw_text_map(plan),
    }


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a row of `plans` as JSON has them; the imbalance is None while a worker has no load.

    planner_options  those that the planner was given, as `plan --option` takes them; empty: none
    """
    return {
        **{name: row[name] for name in FIGURES},
        "imbalance": finite_imbalance(row["imbalance"], None),
        "planner_options": str(json.loads(row["options"]).get("planner_options", "")),
        "created_at": iso(row["created_at"]),
    }


def read_plan(reader: TableReader, version: int | None) -> tuple[dict[str, Any], PartitionPlan, Any]:
    """Read the row of a plan, the plan, and its units ordered by number; raises UsageError if there is none."""
    columns = (*FIGURES, *GRID_COLUMNS, "index_version", "worker_loads", "options")
    wanted = pds.field("plan_version") == version if version is not None else None
    rows = reader.read(names.PLANS, columns, wanted).sort_by("plan_version").to_pylist()
    if not rows and version is None:
        raise UsageError("there is no plan yet", "run: pststream plan, or pststream match, which makes the first one")
    if not rows:
        raise UsageError(f"there is no plan {version}", "pststream plans list shows the plans of the home")
    row = rows[-1]
    of_plan = pds.field("plan_version") == row["plan_version"]
    units = reader.read(names.PLAN_UNITS, _UNITS, of_plan).sort_by("unit").combine_chunks()
    nodes = nodes_from_rows(reader.read(names.PLAN_NODES, NODE_COLUMNS, of_plan))
    return row, plan_from_rows(row, units, nodes), units


def draw_text_map(plan: PartitionPlan) -> list[str]:
    """Draw the workers of a plan as a map of at most MAP_COLUMNS x MAP_ROWS characters, north first."""
    grid = plan.grid
    width, height = min(MAP_COLUMNS, grid.columns), min(MAP_ROWS, grid.rows)
    columns = (2 * np.arange(width) + 1) * grid.columns // (2 * width)
    rows = ((2 * np.arange(height) + 1) * grid.rows // (2 * height))[::-1]
    units = plan.leaf_unit[plan.cell_leaf[rows[:, None] * grid.columns + columns]]
    signs = np.array([*WORKER_SIGNS, SHARED])
    worker = plan.unit_worker[np.maximum(units, 0)] % len(WORKER_SIGNS)
    return ["".join(line) for line in signs[np.where(units >= 0, worker, len(WORKER_SIGNS))]]


def _bounds(plan: PartitionPlan) -> list[dict[str, float]]:
    """The box around each leaf's cells, in degrees."""
    grid = plan.grid
    order = np.argsort(plan.cell_leaf, kind="stable")
    starts = np.searchsorted(plan.cell_leaf[order], np.arange(plan.leaves))
    row, column = np.divmod(order, grid.columns)
    high, wide = (grid.north - grid.south) / grid.rows, (grid.east - grid.west) / grid.columns
    sides = {
        "west": grid.west + np.minimum.reduceat(column, starts) * wide,
        "south": grid.south + np.minimum.reduceat(row, starts) * high,
        "east": grid.west + (np.maximum.reduceat(column, starts) + 1) * wide,
        "north": grid.south + (np.maximum.reduceat(row, starts) + 1) * high,
    }
    return [{side: round(float(values[leaf]), 6) for side, values in sides.items()} for leaf in range(plan.leaves)]


def render_plans(plans: list[dict[str, Any]]) -> str:
    """Render the list as a table."""
    if not plans:
        return "no plans yet; pststream plan makes one, and so does the first pststream match"
    rows: list[tuple[str, ...]] = [
        ("version", "planner", "options", "workers", "units", "load", "greatest", "imbalance", "topk", "made at")
    ]
    for plan in plans:
        version = f"{'*' if plan['current'] else '~' if plan['retiring'] else ' '}{plan['plan_version']}"
        loads = (f"{plan['load_total']:.4g}", f"{plan['load_max']:.4g}", imbalance_text(plan["imbalance"]))
        made = (plan["planner"], plan["planner_options"] or NO_OPTIONS, str(plan["workers"]), str(plan["units"]))
        rows.append((version, *made, *loads, plan["topk_planner"], plan["created_at"][:19]))
    retiring = "; ~ still serves the older subscriptions" if any(plan["retiring"] for plan in plans) else ""
    note = f"* is the current plan{retiring}; load, greatest (of a worker): predicted CPU seconds"
    return "\n".join([*table_lines(rows), note])


def render_plan(plan: dict[str, Any]) -> str:
    """Render a plan as text: figures, map, the first units."""
    grid = plan["grid"]
    lines = [
        f"plan {plan['plan_version']}: {plan['planner']}, {counted(plan['workers'], 'worker')},"
        f" {counted(plan['units'], 'unit')}, {counted(plan['leaves'], 'leaf', 'leaves')};"
        f" made at {plan['created_at'][:19]} in {duration(plan['seconds'])}",
        f"options of the planner: {plan['planner_options'] or NO_OPTIONS}",
        f"load {plan['load_total']:.4g} s in total, greatest {plan['load_max']:.4g}, least {plan['load_min']:.4g},"
        f" imbalance {imbalance_text(plan['imbalance'])} (Definition 1, on the sample)",
    ]
    if plan["retiring_version"] is not None:
        lines.append(f"plan {plan['retiring_version']} still serves the subscriptions up to key {plan['retiring_to']}")
    if "choice" in plan["options"]:
        lines.append(describe_choice(plan["options"]["choice"]))
    lines += [
        "",
        f"north {grid['north']:.6g}, west {grid['west']:.6g}",
        *(f"  {line}" for line in plan["map"]),
        f"south {grid['south']:.6g}, east {grid['east']:.6g}; each character is a worker"
        + (f" modulo {len(WORKER_SIGNS)}" if plan["workers"] > len(WORKER_SIGNS) else "")
        + (
            f", {SHARED} several workers, by text, object or subscription"
            if any(SHARED in line for line in plan["map"])
            else ""
        ),
        "",
    ]
    rows: list[tuple[str, ...]] = [
        ("unit", "worker", "west", "south", "east", "north", "terms", "load", "objects", "subscriptions")
    ]
    for unit in plan["units_shown"][:20]:
        bounds = (f"{unit[side]:.5g}" for side in ("west", "south", "east", "north"))
        terms = "all" if unit["terms"] is None else f"{unit['terms']}{'+' if unit['takes_other_terms'] else ''}"
        loads = (f"{unit['load']:.3g}", f"{unit['objects']:.0f}", f"{unit['subscriptions']:.0f}")
        rows.append((str(unit["unit"]), str(unit["worker"]), *bounds, terms, *loads))
    lines += table_lines(rows)
    if more := plan["units"] - (len(rows) - 1):
        lines.append(f"... and {counted(more, 'unit')} with less load")
    return "\n".join(lines)


_MIGRATION = (
    "plan_version", "plan_version_before", "kind", "reason", "move", "origin", "target", "cells", "terms",
    "subscriptions", "bytes", "expected_gain", "load_before", "load_after", "decided_at",
)  # fmt: skip
_SHARED = ("plan_version_before", "kind", "subscriptions", "bytes", "expected_gain", "load_before", "load_after")


def list_plan_history(home: AnyHome) -> list[dict[str, Any]]:
    """List the plans, oldest first, each with its origin and its measured batches.

    kind       local, global, retire, undo; plan: made by `pststream plan`, or by the first batch
    moves      what moved from which worker to which, and why; [] for a plan without migration
    batches    numbers of the batches that ran under it; objects, matches: sums over these batches
    measured   greatest CPU time of a worker over the least, in these batches; None without batches
    load_before, load_after: load of each worker on the sample (Definition 1). expected_gain: the share of the greatest
    load that the migration is expected to save.
    """
    reader = TableReader(home)
    plans = reader.read(names.PLANS, ("plan_version", "planner", "workers", "created_at")).sort_by("plan_version")
    moves: dict[int, list[dict[str, Any]]] = {}
    for row in reader.read(names.MIGRATIONS, _MIGRATION).sort_by("move").to_pylist():
        moves.setdefault(row["plan_version"], []).append(row)
    batches = LedgerHistory(reader).batches
    of_workers = pds.field("unit") == names.WHOLE_WORKER
    loads = reader.read(names.UNIT_LOADS, ("plan_version", "worker", "cpu_seconds"), of_workers)
    return [
        {
            "plan_version": plan["plan_version"],
            "at": iso(plan["created_at"]),
            "planner": plan["planner"],
            **_migrated(moves.get(plan["plan_version"], [])),
            **_measured_balance(plan, batches, loads),
        }
        for plan in plans.to_pylist()
    ]


def _migrated(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the rows of a migration have in common, and each of its moves."""
    if not rows:
        return {**dict.fromkeys(_SHARED), "kind": "plan", "moves": []}
    moves = [
        {name: row[name] for name in ("reason", "origin", "target")}
        | {"cells": len(row["cells"]), "terms": None if row["terms"] is None else len(row["terms"])}
        for row in rows
    ]
    return {**{name: rows[0][name] for name in _SHARED}, "decided_at": iso(rows[0]["decided_at"]), "moves": moves}


def _measured_balance(plan: dict[str, Any], batches: pa.Table, loads: pa.Table) -> dict[str, Any]:
    """Return the sums over the batches under a plan, and their imbalance."""
    version = plan["plan_version"]
    mine = batches.filter(pc.equal(batches.column("plan_version"), version))
    measured = loads.filter(pc.equal(loads.column("plan_version"), version))
    seconds = np.bincount(
        measured.column("worker").to_numpy(), measured.column("cpu_seconds").to_numpy(), minlength=plan["workers"]
    )[: plan["workers"]]  # without workers that only a retiring plan has
    return {
        "batches": mine.column("batch_id").to_pylist(),
        **{name: sum_column(mine, name) for name in ("objects", "matches")},
        "measured": finite_imbalance(imbalance_of(seconds)) if seconds.any() else None,
    }


def render_plan_history(rows: list[dict[str, Any]]) -> str:
    """Render the history as a table."""
    if not rows:
        return "no plans yet"
    table: list[tuple[str, ...]] = [
        ("plan", "at", "kind", "reason", "moves", "subscriptions", "bytes", "expected gain", "batches", "measured")
    ]
    for row in rows:
        reason = ", ".join(dict.fromkeys(move["reason"] for move in row["moves"])) or row["planner"]
        moved = ["-" if row[name] is None else f"{row[name]:,}" for name in ("subscriptions", "bytes")]
        gain = "-" if row["expected_gain"] is None else f"{row['expected_gain']:.1%}"
        measured = imbalance_text(row["measured"]) if row["batches"] else "-"
        figures = (str(len(row["moves"])), *moved, gain, str(len(row["batches"])), measured)
        table.append((str(row["plan_version"]), row["at"][:19], row["kind"], reason, *figures))
    return "\n".join([*table_lines(table), "measured: greatest CPU time of a worker over the least, under that plan"])
