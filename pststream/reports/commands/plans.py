"""The plans of a home: a list of all, and one with its units and a map, small enough to read."""

import json
from typing import Any

import numpy as np
import pyarrow.dataset as pds

from pststream import names
from pststream.domain.plan import PartitionPlan
from pststream.domain.plan_rows import plan_from_rows
from pststream.errors import UsageError
from pststream.reports.commands.text_tables import text_table
from pststream.reports.reading.table_reader import AnyHome, Reader
from pststream.utc_times import iso

FIGURES = (
    "plan_version", "planner", "workers", "units", "load_total", "load_max", "load_min", "imbalance", "seconds",
    "created_at", "retiring_version", "retiring_to",
)  # fmt: skip
_GRID = ("west", "south", "east", "north", "columns", "rows")
_UNITS = ("unit", "worker", "leaf", "cell_runs", "terms", "takes_other_terms", "load", "objects", "subscriptions")
MOST_UNITS = 200
MAP_COLUMNS, MAP_ROWS = 60, 20
SIGNS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
BY_TEXT = "*"


def list_plans(home: AnyHome) -> list[dict[str, Any]]:
    """Figures of every plan, oldest first; `current` marks the one that new batches run under, `retiring` the one that
    serves the older subscriptions beside it.
    """
    rows = Reader(home).read(names.PLANS, FIGURES).sort_by("plan_version").to_pylist()
    current = rows[-1] if rows else {}
    return [
        {
            **row,
            "created_at": iso(row["created_at"]),
            "current": row is current,
            "retiring": row["plan_version"] == current["retiring_version"],
        }
        for row in rows
    ]


def show_plan(home: AnyHome, version: int | None = None) -> dict[str, Any]:
    """One plan (None: the current one): figures, its most loaded units, and a map of its workers as text.

    units  at most MOST_UNITS, the most loaded first; bounds in degrees of the leaf (a leaf at the edge of the raster
           also serves what lies beyond); terms: how many it serves by name, None where it serves the leaf whole
    map    lines from north to south; a character is the worker at the middle of a block (SIGNS, again from its
           beginning after the last), BY_TEXT where the leaf is shared by text
    Raises UsageError if there is no such plan.
    """
    reader = Reader(home)
    row, plan, units = read_plan(reader, version)
    bounds = _bounds(plan)
    order = np.argsort(-units.column("load").to_numpy(), kind="stable")[:MOST_UNITS]
    shown = units.select([name for name in _UNITS if name not in ("cell_runs", "terms")]).take(order).to_pylist()
    term_counts = units.column("terms").take(order).combine_chunks().value_lengths().to_pylist()
    return {
        **{name: row[name] for name in FIGURES},
        "created_at": iso(row["created_at"]),
        "worker_loads": row["worker_loads"],
        "options": json.loads(row["options"]),
        "grid": {name: row[name] for name in _GRID},
        "leaves": plan.leaves,
        "units_shown": [{**unit, **bounds[unit["leaf"]], "terms": terms} for unit, terms in zip(shown, term_counts)],
        "map": text_map(plan),
    }


def read_plan(reader: Reader, version: int | None) -> tuple[dict[str, Any], PartitionPlan, Any]:
    """The row of a plan, the plan, and its units ordered by number; raises UsageError if there is none."""
    columns = (*FIGURES, *_GRID, "index_version", "worker_loads", "options")
    wanted = pds.field("plan_version") == version if version is not None else None
    rows = reader.read(names.PLANS, columns, wanted).sort_by("plan_version").to_pylist()
    if not rows:
        if version is None:
            raise UsageError(
                "there is no plan yet", "run: pststream plan, or pststream match, which makes the first one"
            )
        raise UsageError(f"there is no plan {version}", "pststream plans list names those that there are")
    row = rows[-1]
    units = reader.read(names.PLAN_UNITS, _UNITS, pds.field("plan_version") == row["plan_version"])
    units = units.sort_by("unit").combine_chunks()
    return row, plan_from_rows(row, units), units


def text_map(plan: PartitionPlan) -> list[str]:
    """The workers of a plan on a map of at most MAP_COLUMNS x MAP_ROWS characters, north first."""
    grid = plan.grid
    wide, high = min(MAP_COLUMNS, grid.columns), min(MAP_ROWS, grid.rows)
    columns = (2 * np.arange(wide) + 1) * grid.columns // (2 * wide)
    rows = ((2 * np.arange(high) + 1) * grid.rows // (2 * high))[::-1]
    units = plan.leaf_unit[plan.cell_leaf[rows[:, None] * grid.columns + columns]]
    signs = np.array([*SIGNS, BY_TEXT])
    worker = plan.unit_worker[np.maximum(units, 0)] % len(SIGNS)
    return ["".join(line) for line in signs[np.where(units >= 0, worker, len(SIGNS))]]


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
    """The list for a person to read."""
    if not plans:
        return "no plans yet; pststream plan makes one, and so does the first batch (pststream match)"
    rows: list[tuple[str, ...]] = [
        ("version", "planner", "workers", "units", "load", "greatest", "imbalance", "made at")
    ]
    for plan in plans:
        version = f"{'*' if plan['current'] else '~' if plan['retiring'] else ' '}{plan['plan_version']}"
        loads = (f"{plan['load_total']:.4g}", f"{plan['load_max']:.4g}", f"{plan['imbalance']:.3g}")
        rows.append(
            (version, plan["planner"], str(plan["workers"]), str(plan["units"]), *loads, plan["created_at"][:19])
        )
    two = "; ~ still serves the subscriptions before it" if any(plan["retiring"] for plan in plans) else ""
    return "\n".join([*text_table(rows), f"* is the current one{two}; loads are seconds of Definition 1"])


def _beside(plan: dict[str, Any]) -> list[str]:
    """A line on the plan that this one retires."""
    if plan["retiring_version"] is None:
        return []
    return [f"beside it plan {plan['retiring_version']} serves the subscriptions up to key {plan['retiring_to']}"]


def render_plan(plan: dict[str, Any]) -> str:
    """A plan for a person to read: figures, map, the first units."""
    grid = plan["grid"]
    lines = [
        f"plan {plan['plan_version']}: {plan['planner']}, {plan['workers']} workers, {plan['units']} units,"
        f" {plan['leaves']} leaves; made at {plan['created_at'][:19]} in {plan['seconds']:.1f} s",
        f"load {plan['load_total']:.4g} s in all, greatest {plan['load_max']:.4g}, least {plan['load_min']:.4g},"
        f" imbalance {plan['imbalance']:.3g} (Definition 1, on the sample)",
        *_beside(plan),
        "",
        f"north {grid['north']:.6g}, west {grid['west']:.6g}",
        *(f"  {line}" for line in plan["map"]),
        f"south {grid['south']:.6g}, east {grid['east']:.6g}; a character is a worker"
        + (f" modulo {len(SIGNS)}" if plan["workers"] > len(SIGNS) else "")
        + (f", {BY_TEXT} several by text" if any(BY_TEXT in line for line in plan["map"]) else ""),
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
    left = plan["units"] - (len(rows) - 1)
    return "\n".join([*lines, *text_table(rows), *([f"... and {left} units of less load"] if left else [])])
