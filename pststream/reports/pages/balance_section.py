"""Prepare a page's table of workers' loads: predicted and measured, or before and after an adjustment."""

from typing import NamedTuple

import numpy as np

from pststream.base.format_values import percent, whole_or_short
from pststream.plans.imbalance import imbalance_of, imbalance_text
from pststream.reports.reading.plan_view import MeasuredLoads, PlanView

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
    rows: list[list[BarCell]]
    summary: str


def prepare_balance(view: PlanView, loads: MeasuredLoads | None) -> Balance:
    """Prepare a row for each worker: its predicted load (Definition 1), then what was measured in its batches."""
    predicted = np.array(view.worker_loads)
    total = predicted.sum() or 1.0
    columns = {"Predicted load": bar_cells(predicted, [percent(load / total) for load in predicted])}
    if loads is not None and not loads.empty:
        for name, title in _MEASURED.items():
            columns[title] = bar_cells(loads.workers[name], [_number(name, value) for value in loads.workers[name]])
    if loads is not None and loads.subscriptions.any():
        stored = loads.subscriptions.astype(np.float64)
        columns["Subscriptions"] = bar_cells(stored, [whole_or_short(value) for value in stored])
    return Balance(list(columns), [list(row) for row in zip(*columns.values())], _summary(view, loads))


def compare_loads(before: list[float], after: list[float]) -> list[LoadRow]:
    """Prepare a row for each worker: its load before and after, relative to the mean load before."""
    greatest, mean = max([*before, *after, 0.0]) or 1.0, sum(before) / len(before) or 1.0
    return [
        LoadRow(
            BarCell(f"{old / mean:.2f}", old / greatest),
            BarCell(f"{new / mean:.2f}", new / greatest),
            _change(old, new),
        )
        for old, new in zip(before, after)
    ]


def _change(old: float, new: float) -> str:
    if old == new:
        return "–"
    return f"{'+' if new > old else MINUS}{percent(abs(new / old - 1))}" if old > 0 else "new"


def bar_cells(values: np.ndarray, texts: list[str]) -> list[BarCell]:
    """Return a cell for each value of a column."""
    greatest = float(values.max(initial=0.0)) or 1.0
    return [BarCell(text, float(value) / greatest) for value, text in zip(values, texts)]


def _number(name: str, value: float) -> str:
    return f"{value:.2f}" if name == "cpu_seconds" else whole_or_short(value)


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
