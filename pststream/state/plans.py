"""Read and write the plans of a home: row, units, vocabulary (term frequencies), and the plan being retired; and the
plans of `topk`, which rows of `plans` name.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import look_up
from pststream.base.errors import HomeError
from pststream.base.utc_times import utc_now
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_rows import (
    node_rows,
    nodes_from_rows,
    plan_from_rows,
    plan_row,
    topk_plan_from_row,
    topk_plan_row,
    unit_rows,
)
from pststream.plans.topk_plan import TopkPlan
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.tables.delta_tables import greatest_value, open_dataset, read_table
from pststream.tables.open_tables import table_and_values


@dataclass(frozen=True)
class TermFrequencies:
    """Frequencies of terms in the sample of a plan; a term that is not listed occurs in no sampled object.

    terms int64[n] ascending, objects int64[n].
    """

    terms: np.ndarray
    objects: np.ndarray

    def frequency(self, terms: np.ndarray) -> np.ndarray:
        """Return the number of sampled objects that have each term: int64, of the same length."""
        return look_up(terms, self.terms, self.objects, 0)


@dataclass(frozen=True)
class Retiring:
    """A plan that serves the older subscriptions while a newer one serves the rest (PS2Stream section V-B).

    to: the greatest subscription key that it serves.
    """

    plan_version: int
    to: int


def read_plan_rows(home: Home) -> list[dict[str, Any]]:
    """Return the rows of `plans`, oldest first."""
    return sorted(read_table(home.table(names.PLANS)).to_pylist(), key=lambda row: row["plan_version"])


def current_version(home: Home) -> int:
    """Return the version of the current plan; 0 if there is none."""
    return greatest_value(home.table(names.PLANS), "plan_version")


def index_version(home: Home, version: int) -> int:
    """Return the version of the index and vocabulary that serve a plan.

    A plan without a row has the index of its own version.
    """
    row = find_plan_row(home, version)
    return int(row["index_version"]) if row else version


def find_plan_row(home: Home, version: int) -> dict[str, Any] | None:
    """Return the row of a plan; None if there is no such plan."""
    with table_and_values(home.table(names.PLANS)) as (table, values):
        rows = values.setdefault("plans", {})  # a micro-batch asks for a plan seven times
        if version not in rows:
            rows[version] = open_dataset(table).to_table(filter=pds.field("plan_version") == version)
    return next(iter(rows[version].to_pylist()), None)


def numbers_in_index(home: Home, version: int) -> Sequence[int]:
    """Return the number under which the index has the rows of each worker of a stored plan, ascending."""
    row = read_plan_row(home, version)
    return tuple(row["index_workers"] or ()) or range(row["workers"])


def read_plan_row(home: Home, version: int) -> dict[str, Any]:
    """Read the row of an existing plan."""
    return cast(dict[str, Any], find_plan_row(home, version))


def retiring_plan(row: Mapping[str, Any]) -> Retiring | None:
    """Return the older plan that this plan (a row of `plans`) is replacing, None if there is none."""
    version = row["retiring_version"]
    return None if version is None else Retiring(version, row["retiring_to"])


def load_plan(home: Home, version: int) -> PartitionPlan:
    """Read a plan."""
    row = read_plan_row(home, version)
    of_plan = pds.field("plan_version") == version
    units = read_table(home.table(names.PLAN_UNITS), filter=of_plan).sort_by("unit")
    return plan_from_rows(row, units, nodes_from_rows(read_table(home.table(names.PLAN_NODES), filter=of_plan)))


def load_term_frequencies(home: Home, version: int) -> TermFrequencies:
    """Read the term frequencies of the sample that a plan's index was built with."""
    of_index = pds.field("plan_version") == index_version(home, version)
    return term_frequencies_of(read_table(home.table(names.VOCABULARY), ["term_id", "objects"], of_index))


def term_frequencies_of(vocabulary: pa.Table) -> TermFrequencies:
    """Return the term frequencies in rows of `vocabulary`."""
    rows = vocabulary.sort_by("term_id")
    return TermFrequencies(rows.column("term_id").to_numpy(), rows.column("objects").to_numpy())


def save_units(home: Home, version: int, plan: PartitionPlan, loads: dict[str, np.ndarray]) -> None:
    """Write the units and the tree of a plan; they have no effect before the row of `plans`."""
    rows = unit_rows(plan)
    rows = rows.append_column("plan_version", pa.array(np.full(plan.units, version)))
    for name in ("load", "objects", "subscriptions"):
        rows = rows.append_column(name, pa.array(np.asarray(loads[name], dtype=np.float64)))
    ledger_tables.append(home, names.PLAN_UNITS, rows)
    if (nodes := node_rows(plan.nodes)).num_rows:
        nodes = nodes.append_column("plan_version", pa.array(np.full(nodes.num_rows, version)))
        ledger_tables.append(home, names.PLAN_NODES, nodes)


def delete_units(home: Home, version: int) -> None:
    """Delete the units and the tree that a killed command has written for a version without a row in `plans`."""
    for name in (names.PLAN_UNITS, names.PLAN_NODES):
        ledger_tables.delete_versions(home, name, "plan_version", version)


def save_vocabulary(home: Home, version: int, rows: pa.Table) -> None:
    """Write the vocabulary of a plan: term_id, term, objects, subscriptions."""
    ledger_tables.append(
        home, names.VOCABULARY, rows.append_column("plan_version", pa.array(np.full(rows.num_rows, version)))
    )


def save_plan(
    home: Home,
    version: int,
    plan: PartitionPlan,
    figures: dict[str, Any],
    index: int | None = None,
    retiring: Retiring | None = None,
    placement: int | None = None,
    topk: int | None = None,
) -> None:
    """Write the row of `plans`, which makes the plan the current one.

    index: version of the index that serves the plan; None: its own
    retiring: the older plan that still serves older subscriptions; None: there is none
    placement: version of the counts and loads by which the plan places subscriptions; None: it shares otherwise
    topk: version of `topk_plans` that serves `topk`; None: candidates are found by answer bucket
    """
    ledger_tables.append(
        home,
        names.PLANS,
        [
            {
                "plan_version": version, "index_version": index or version,
                "retiring_version": retiring.plan_version if retiring else None,
                "retiring_to": retiring.to if retiring else None,
                "placement_version": placement,
                "topk_version": topk,
                **plan_row(plan), "created_at": utc_now(),
                **figures, "options": json.dumps({**plan.options, **figures["options"]}, sort_keys=True),
            }
        ],
    )  # fmt: skip


def topk_version_of(home: Home, version: int) -> int | None:
    """Return which version of `topk_plans` is in force under a plan version; None: none."""
    row = find_plan_row(home, version)
    return row["topk_version"] if row else None


def topk_planner_of(home: Home, version: int) -> tuple[str, str]:
    """Return the planner of the plan of `topk` under a plan version, and the options that it was given.

    Raises HomeError if `topk_plans` has lost the row of that plan.
    """
    topk = topk_version_of(home, version)
    if topk is None:
        return names.BY_BUCKET, ""
    row = read_topk_row(home, topk)
    return row["planner"], str(json.loads(row["options"])["planner_options"])


def read_topk_row(home: Home, version: int) -> dict[str, Any]:
    """Read the row of a version of `topk_plans`; raises HomeError if the table has lost it."""
    rows: list[dict[str, Any]] = read_table(
        home.table(names.TOPK_PLANS), filter=pds.field("plan_version") == version
    ).to_pylist()
    if not rows:
        raise HomeError(
            home.path,
            f"the table topk_plans has lost the row of plan version {version}, under which topk is searched",
            "restore a backup (docs/operation.md); or, if no batch is unfinished, search topk by answer bucket:"
            " pststream plan --kinds topk --planner hash",
        )
    return rows[0]


def load_topk_plan(home: Home, version: int) -> TopkPlan:
    """Read a plan of `topk` subscriptions; raises HomeError if its row is lost, ValueError if the row makes none."""
    return topk_plan_from_row(read_topk_row(home, version))


def save_topk_plan(home: Home, version: int, plan: TopkPlan, figures: dict[str, Any], options: dict[str, Any]) -> None:
    """Write a plan of `topk` subscriptions; it has no effect before a row of `plans` names it.

    figures: replication, copies, unit_loads, seconds
    """
    row = {
        "plan_version": version,
        **topk_plan_row(plan),
        **figures,
        "options": json.dumps(options, sort_keys=True),
        "created_at": utc_now(),
    }
    ledger_tables.append(home, names.TOPK_PLANS, [row])
