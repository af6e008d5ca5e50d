"""List every plan of a home: the moves that made it, and the measured imbalance of the batches under it."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import AnyHome, TableReader
from pststream.domain.arrow_columns import sum_column
from pststream.domain.imbalance import finite_imbalance, imbalance_of, imbalance_text
from pststream.ledgers.history import LedgerHistory
from pststream.reports.commands.text_tables import table_lines
from pststream.utc_times import iso

_MIGRATION = (
    "plan_version", "plan_version_before", "kind", "reason", "move", "origin", "target", "cells", "terms",
    "subscriptions", "bytes", "expected_gain", "load_before", "load_after", "decided_at",
)  # fmt: skip
_SHARED = ("plan_version_before", "kind", "subscriptions", "bytes", "expected_gain", "load_before", "load_after")


def list_plan_history(home: AnyHome) -> list[dict[str, Any]]:
    """List the plans, oldest first, each with its origin and its measured batches.

    kind       local, global, retire, undo; plan: made by `pststream plan` or by the first batch, without migration
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
    batches, loads = LedgerHistory(reader).batches, _worker_seconds(reader)
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


def _worker_seconds(reader: TableReader) -> pa.Table:
    of_workers = pds.field("unit") == names.WHOLE_WORKER
    return reader.read(names.UNIT_LOADS, ("plan_version", "worker", "cpu_seconds"), of_workers)


def _migrated(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the rows of a migration have in common, and each of its moves."""
    if not rows:
        return {**dict.fromkeys(_SHARED), "kind": "plan", "moves": []}
    moves = [
        {
            "reason": row["reason"],
            "origin": row["origin"],
            "target": row["target"],
            "cells": len(row["cells"]),
            "terms": None if row["terms"] is None else len(row["terms"]),
        }
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
    )
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
        moved = [_text(row["subscriptions"]), _text(row["bytes"])]
        gain = "-" if row["expected_gain"] is None else f"{row['expected_gain']:.1%}"
        measured = imbalance_text(row["measured"]) if row["batches"] else "-"
        figures = (str(len(row["moves"])), *moved, gain, str(len(row["batches"])), measured)
        table.append((str(row["plan_version"]), row["at"][:19], row["kind"], reason, *figures))
    return "\n".join([*table_lines(table), "measured: greatest CPU time of a worker over the least, under that plan"])


def _text(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
