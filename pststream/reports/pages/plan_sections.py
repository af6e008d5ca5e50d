"""Prepare what pages show of a plan (map texts, worker loads, units of `topk`) and of micro-batches."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from pststream.base import names
from pststream.base.texts import counted, duration, percent, whole_or_short
from pststream.plans.imbalance import imbalance_of, imbalance_text
from pststream.reports.commands.plans import describe_units, name_plan, read_topk_plan
from pststream.reports.plots.bar_chart import BarChart, BarValue, draw_bar_chart, segment_style
from pststream.reports.plots.plan_map import COLOURS, MapLayer, Projection, draw_topk_parts, worker_style
from pststream.reports.reading.home_figures import BatchHistory, BatchView
from pststream.reports.reading.plan_view import MeasuredLoads, PlanView
from pststream.tables.delta_tables import TableReader

LegendItem = tuple[str, str]
"""The CSS class of a swatch, and its meaning."""

CITIES: LegendItem = ("dot city-dot", "cities, as the base map")


def describe_plan(view: PlanView | None) -> str:
    """What the map shows, in a few sentences."""
    if view is None:
        return "There is no plan yet. The map shows cities and objects only."
    plan = view.plan
    text = (
        f"Plan {view.version} by {view.row['planner']}: {counted(plan.leaves, 'leaf', 'leaves')}"
        f" ({plan.sharing}) over {plan.grid.columns} × {plan.grid.rows} cells, served by"
        f" {counted(plan.workers, 'worker')}. The numbers on the map are those of the workers."
    )
    if (older := view.row["retiring_version"]) is not None:
        text += (
            f" Plan {older} is being retired: it still serves the subscriptions that were inserted before plan"
            f" {view.version}. Objects go to the workers of both plans."
        )
    return text


def sampled(count: int, singular: str, plural: str = "") -> str:
    """Return the legend text of dots that are a sample: their number and noun."""
    return f"{counted(count, singular, plural)} (a sample)"


def worker_items(workers: int, shared: bool) -> list[LegendItem]:
    """The legend of the workers' colours, and of cells that several workers share."""
    items = [(worker_style(worker), f"worker {worker}") for worker in range(min(workers, COLOURS))]
    if workers > COLOURS:
        items.append((worker_style(0), f"colours repeat after worker {COLOURS - 1}"))
    if shared:
        items.append((worker_style(-1), "several workers, by text, object or subscription"))
    return items


def plan_items(view: PlanView | None) -> list[LegendItem]:
    """The legend of a plan; empty if there is no plan."""
    return [] if view is None else worker_items(view.plan.workers, bool((view.plan.leaf_unit < 0).any()))


MINUS = "\N{MINUS SIGN}"
_MIN_CPU_SECONDS = 0.2
_MIN_WORKERS = 3
"""From this number of workers on, the correlation of predicted and measured load says something."""

_MEASURED = {
    "cpu_seconds": "CPU seconds",
    "objects": "Objects",
    "candidates": "Candidates checked",
    "matches": "Matches",
}


class BarCell(NamedTuple):
    """A value as text, and its share of the greatest value of its column, 0 to 1."""

    text: str
    share: float


class LoadRow(NamedTuple):
    """The load of a worker before and after an adjustment, and the change as text."""

    before: BarCell
    after: BarCell
    change: str


class Balance(NamedTuple):
    """The title of each column, the cells of each worker or unit, and a summary in sentences."""

    titles: list[str]
    rows: list[tuple[BarCell, ...]]
    summary: str


def prepare_balance(view: PlanView, loads: MeasuredLoads | None) -> Balance:
    """Prepare a row for each worker: its predicted load (Definition 1), then what was measured in its batches."""
    predicted = np.array(view.worker_loads)
    total = predicted.sum() or 1.0
    columns = {"Predicted load": bar_cells(predicted, [percent(load / total) for load in predicted])}
    if loads is not None and not loads.empty:
        for name, title in _MEASURED.items():
            values = loads.workers[name]
            texts = [f"{value:.2f}" if name == "cpu_seconds" else whole_or_short(value) for value in values]
            columns[title] = bar_cells(values, texts)
    if loads is not None and loads.subscriptions.any():
        stored = loads.subscriptions.astype(np.float64)
        columns["Subscriptions"] = bar_cells(stored, [whole_or_short(value) for value in stored])
    return Balance(list(columns), list(zip(*columns.values())), _summary(view, loads))


def compare_loads(before: list[float], after: list[float]) -> list[LoadRow]:
    """Prepare a row for each worker: its load before and after, relative to the mean load before."""
    greatest, mean = max([*before, *after, 0.0]) or 1.0, sum(before) / len(before) or 1.0
    cells = [[BarCell(f"{load / mean:.2f}", load / greatest) for load in loads] for loads in (before, after)]
    none = BarCell("-", 0.0)
    rows = zip_longest(zip_longest(*cells, fillvalue=none), zip_longest(before, after, fillvalue=0.0))
    return [LoadRow(first, second, _change(*loads)) for (first, second), loads in rows]


def _change(old: float, new: float) -> str:
    if old == new:
        return "–"
    return f"{'+' if new > old else MINUS}{percent(abs(new / old - 1))}" if old > 0 else "new"


def bar_cells(values: np.ndarray, texts: list[str]) -> list[BarCell]:
    """Return a cell for each value of a column."""
    greatest = float(values.max(initial=0.0)) or 1.0
    return [BarCell(text, float(value) / greatest) for value, text in zip(values, texts)]


def _summary(view: PlanView, loads: MeasuredLoads | None) -> str:
    predicted = np.array(view.worker_loads)
    facts = [f"Predicted imbalance (greatest load over the least): {imbalance_text(imbalance_of(predicted))}."]
    if loads is not None and not loads.empty:
        cpu = loads.workers["cpu_seconds"]
        facts.append(f"Measured imbalance, of CPU time: {imbalance_text(imbalance_of(cpu))}.")
        if cpu.min() < _MIN_CPU_SECONDS:
            facts.append("Too little CPU time was measured to compare the two.")
        elif view.plan.workers >= _MIN_WORKERS and cpu.std() > 0 and predicted.std() > 0:
            r = float(np.corrcoef(predicted, cpu)[0, 1])
            facts.append(f"Correlation of predicted load and CPU time over the workers: {r:.2f}.")
    return " ".join(facts)


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
    return Balance(list(columns), list(zip(*columns.values())), _summarize_topk(plan))


def topk_items(section: TopkSection | None) -> list[LegendItem]:
    """The legend of the parts of the space; empty if the map has none."""
    return [("topk-part", "parts of the space of the plan of topk")] if section and section.parts else []


def _summarize_topk(plan: Mapping[str, Any]) -> str:
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


class Batches(NamedTuple):
    """The latest batches as a chart and as rows.

    chart       None if no batch took any time
    steps       the steps in the order of their colours
    rows        the latest batches, newest first
    unfinished  a batch that was started and is not done
    total       batches of the home
    """

    chart: BarChart | None
    steps: list[str]
    rows: list[BatchView]
    unfinished: int | None
    total: int


def prepare_batches(history: BatchHistory) -> Batches:
    """Prepare the latest batches of a home."""
    steps = list(dict.fromkeys(step for batch in history.batches for step in batch.seconds))
    rows = list(reversed(history.batches[-25:]))
    return Batches(_chart(history.batches, steps), steps, rows, history.unfinished, history.totals.batches)


def _chart(batches: tuple[BatchView, ...], steps: list[str]) -> BarChart | None:
    if not any(batch.duration > 0 for batch in batches):
        return None
    bars = []
    for batch in batches:
        head = f"Batch {batch.batch_id}: {counted(batch.objects, 'object')}, {duration(batch.duration)}"
        tip = "\n".join([head, *(f"{step}: {duration(value)}" for step, value in batch.seconds.items())])
        bars.append(BarValue(batch.batch_id, [batch.seconds.get(step, 0.0) for step in steps], tip))
    styles = [segment_style(number) for number in range(len(steps))]
    return draw_bar_chart("Seconds of each step", bars, styles, lambda value: f"{value:g} s")
