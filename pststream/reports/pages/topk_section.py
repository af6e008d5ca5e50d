"""Prepare what a page shows of the plan of `topk`: a table of its units, and the parts of the space on the map."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pststream import names
from pststream.delta_tables import TableReader
from pststream.domain.imbalance import imbalance_text
from pststream.format_values import counted, percent, whole_or_short
from pststream.reports.commands.topk_plan import describe_units, name_plan, read_topk_plan
from pststream.reports.pages.balance_section import Balance, bar_cells
from pststream.reports.pages.map_section import LegendItem
from pststream.reports.plots.plan_map import MapLayer
from pststream.reports.plots.projection import Projection
from pststream.reports.plots.topk_parts import draw_topk_parts
from pststream.reports.reading.plan_view import PlanView


class TopkSection(NamedTuple):
    """The loads of the units, and the parts of the space; None if the plan divides words first."""

    balance: Balance
    parts: MapLayer | None


def read_topk(tables: TableReader, view: PlanView | None, since: int = 0) -> dict[str, Any] | None:
    """Read the plan of `topk` under a plan, with the loads of batches from `since` on; None: search is by bucket."""
    if view is None:
        return None
    plan = tables.tolerate(names.TOPK_PLANS, lambda: read_topk_plan(tables.strict, view.version, since), None)
    return plan if plan is not None and plan["topk_version"] is not None else None


def prepare_topk(plan: Mapping[str, Any] | None, projection: Projection) -> TopkSection | None:
    """Prepare the table of the units and the layer of the map; None without a plan."""
    return None if plan is None else TopkSection(balance_units(plan), draw_topk_parts(plan, projection))


def balance_units(plan: Mapping[str, Any]) -> Balance:
    """Prepare a row for each unit: its predicted load, then what was measured in the batches under the plan."""
    loads = np.array(plan["unit_loads"])
    columns = {"Predicted load": bar_cells(loads, [percent(load / (loads.sum() or 1.0)) for load in loads])}
    if plan["measured_batches"]:
        seconds, objects, stored = (np.array(plan[f"unit_{name}"]) for name in ("seconds", "objects", "subscriptions"))
        columns["CPU seconds"] = bar_cells(seconds, [f"{value:.2f}" for value in seconds])
        columns["Objects"] = bar_cells(objects, list(map(whole_or_short, objects)))
        columns["Subscriptions"] = bar_cells(stored, list(map(whole_or_short, stored)))
    return Balance(list(columns), [list(row) for row in zip(*columns.values())], _summary(plan))


def topk_items(section: TopkSection | None) -> list[LegendItem]:
    """The legend of the parts of the space; empty if the map has none."""
    return [("topk-part", "parts of the space of the plan of topk")] if section and section.parts else []


def _summary(plan: Mapping[str, Any]) -> str:
    facts = [
        f"{name_plan(plan['topk_version']).capitalize()} by {plan['planner']}, {describe_units(plan)}.",
        f"On the sample a subscription is at {plan['replication']:.3g} units and an object goes to"
        f" {plan['copies']:.3g}.",
        f"Predicted imbalance (greatest load over the least): {imbalance_text(plan['imbalance'])}.",
    ]
    if plan["measured_batches"]:
        batches = counted(plan["measured_batches"], "batch", "batches")
        facts.append(f"Measured imbalance, of CPU time in {batches}: {imbalance_text(plan['measured_imbalance'])}.")
    return " ".join(facts)
