"""Read the current plan for the pages: leaves, their words, and predicted and measured loads of units and workers."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_rows import GRID_COLUMNS, NODE_COLUMNS, UNIT_COLUMNS, nodes_from_rows, plan_from_rows
from pststream.tables.delta_tables import TableReader

_PLAN_COLUMNS = (
    "plan_version", "index_version", "retiring_version", "planner", "workers", "units", *GRID_COLUMNS, "load_total",
    "load_max", "load_min", "imbalance", "worker_loads", "options", "seconds", "created_at",
)  # fmt: skip
_UNIT_COLUMNS = (*UNIT_COLUMNS, "load", "objects", "subscriptions")
_LOADS = ("objects", "candidates", "matches", "cpu_seconds")
_SHOWN_TERMS = 12
_MAX_LOOKED_UP = 500
"""Terms of a unit that are looked up in the vocabulary."""


@dataclass
class PlanView:
    """A plan with its predicted loads.

    unit_load, unit_objects, unit_subscriptions   float64[units], as the planner saw them
    leaf_words                                    words of each leaf that is partitioned by text, by unit
    """

    version: int
    row: dict[str, Any]
    plan: PartitionPlan
    unit_load: np.ndarray
    unit_objects: np.ndarray
    unit_subscriptions: np.ndarray
    leaf_words: dict[int, list[tuple[int, int, list[str]]]] = field(default_factory=dict)

    @property
    def worker_loads(self) -> list[float]:
        """Predicted load of each worker."""
        stored = self.row["worker_loads"]
        if stored and len(stored) == self.plan.workers:
            return [float(load) for load in stored]
        return np.bincount(self.plan.unit_worker, self.unit_load, self.plan.workers).tolist()


@dataclass(frozen=True)
class MeasuredLoads:
    """Loads measured under a plan, summed over its batches.

    workers        {objects, candidates, matches, cpu_seconds} to float64[workers]
    units          the same keys to float64[units]; cpu_seconds are 0, since only workers are timed
    subscriptions  int64[workers], stored by each worker in its last batch
    """

    workers: dict[str, np.ndarray]
    units: dict[str, np.ndarray]
    subscriptions: np.ndarray

    @property
    def empty(self) -> bool:
        """Nothing was measured."""
        return not any(values.any() for values in self.workers.values())


def read_plan(tables: TableReader) -> PlanView | None:
    """Read the current plan; None if there is none, or if its rows are inconsistent: then `problems` says so."""
    rows = tables.rows(names.PLANS, _PLAN_COLUMNS)
    if not rows:
        return None
    row = max(rows, key=lambda plan: plan["plan_version"])
    version = row["plan_version"]
    batches = list(tables.batches(names.PLAN_UNITS, _UNIT_COLUMNS, pc.field("plan_version") == version))
    if not batches:
        return None
    units = pa.Table.from_batches(batches).sort_by("unit")
    nodes = list(tables.batches(names.PLAN_NODES, NODE_COLUMNS, pc.field("plan_version") == version))
    try:
        plan = plan_from_rows(row, units, nodes_from_rows(pa.Table.from_batches(nodes)) if nodes else None)
    except (ValueError, TypeError, KeyError) as error:
        tables.problems.append(f"Plan {version} cannot be drawn: {error}")
        return None
    load, objects, subscriptions = (
        np.nan_to_num(units.column(name).to_numpy().astype(np.float64)) for name in ("load", "objects", "subscriptions")
    )
    return PlanView(
        version, row, plan, load, objects, subscriptions, _leaf_words(tables, row["index_version"], plan, units)
    )


def read_loads(tables: TableReader, view: PlanView, since: int = 0) -> MeasuredLoads:
    """Read the loads measured in the batches under the plan, from batch `since` on."""
    workers = {name: np.zeros(view.plan.workers) for name in _LOADS}
    units = {name: np.zeros(view.plan.units) for name in _LOADS}
    stored = np.zeros(view.plan.workers, dtype=np.int64)
    last = np.zeros(view.plan.workers, dtype=np.int64)
    columns = ("batch_id", "worker", "unit", "subscriptions", *_LOADS)
    mine = (pc.field("plan_version") == view.version) & (pc.field("batch_id") >= since)
    for batch in tables.batches(names.UNIT_LOADS, columns, mine):
        unit, worker, subscriptions, number = (
            pc.fill_null(batch.column(name), 0).to_numpy(zero_copy_only=False)
            for name in ("unit", "worker", "subscriptions", "batch_id")
        )
        of_worker = (unit < 0) & (worker >= 0) & (worker < view.plan.workers)
        of_unit = (unit >= 0) & (unit < view.plan.units) & (worker >= 0)
        for name in _LOADS:
            values = np.nan_to_num(batch.column(name).to_numpy(zero_copy_only=False).astype(np.float64))
            workers[name] += np.bincount(worker[of_worker], values[of_worker], view.plan.workers)
            units[name] += np.bincount(unit[of_unit], values[of_unit], view.plan.units)
        before = last.copy()
        np.maximum.at(last, worker[of_worker], number[of_worker])
        stored[last > before] = 0
        newest = of_worker.copy()
        newest[of_worker] = number[of_worker] == last[worker[of_worker]]
        np.maximum.at(stored, worker[newest], subscriptions[newest])
    return MeasuredLoads(workers, units, stored)


def _leaf_words(
    tables: TableReader, index_version: int, plan: PartitionPlan, units: pa.Table
) -> dict[int, list[tuple[int, int, list[str]]]]:
    """For each leaf by text: (unit, number of terms, some words), the words with the most subscriptions first.

    Only some terms of a unit are looked up, and the vocabulary does not have the words of all terms.
    """
    by_text = units.filter(pc.is_in(units.column("leaf"), pa.array(np.flatnonzero(plan.leaf_unit == -1))))
    if not by_text.num_rows:
        return {}
    shown = {
        row["unit"]: (row["leaf"], len(row["terms"] or ()), (row["terms"] or [])[:_MAX_LOOKED_UP])
        for row in by_text.select(["unit", "leaf", "terms"]).to_pylist()
    }
    wanted = pa.array(sorted({term for _, _, terms in shown.values() for term in terms}), pa.int64())
    known = (pc.field("plan_version") == index_version) & pc.field("term_id").isin(wanted)
    rows = tables.rows(names.VOCABULARY, ("term_id", "term", "subscriptions"), known & pc.field("term").is_valid())
    words = {row["term_id"]: (-row["subscriptions"], row["term"]) for row in rows}
    leaves: dict[int, list[tuple[int, int, list[str]]]] = {}
    for unit, (leaf, number, terms) in shown.items():
        known_words = sorted(words[term] for term in terms if term in words)
        shown_words = [word for _, word in known_words[:_SHOWN_TERMS]]
        leaves.setdefault(leaf, []).append((unit, number, shown_words))
    return leaves
