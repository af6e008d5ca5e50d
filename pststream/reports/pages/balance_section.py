"""The balance of the workers: what the plan predicted beside what was measured."""

import numpy as np

from pststream.format_values import percent, short, whole
from pststream.reports.plots.html import Markup, element, joined
from pststream.reports.plots.plan_map import COLOURS
from pststream.reports.reading.plan_view import MeasuredLoads, PlanView

_LEAST_CPU_SECONDS = 0.2
_MEASURED = {
    "cpu_seconds": "CPU seconds",
    "objects": "Objects",
    "candidates": "Candidates checked",
    "matches": "Matches",
}


def balance_section(view: PlanView | None, loads: MeasuredLoads | None) -> Markup:
    """A row for each worker with bars: load of Definition 1 as planned, then what its batches cost."""
    if view is None:
        return element("p", "No plan yet. It is made with the first batch, or by: pststream plan", class_="empty")
    predicted = np.array(view.worker_loads)
    columns: dict[str, np.ndarray] = {"Predicted load": predicted}
    if loads is not None and not loads.empty:
        columns |= {title: loads.workers[name] for name, title in _MEASURED.items()}
    head = element("tr", element("th", "Worker", scope="col"), [_head(title) for title in columns])
    stored = loads.subscriptions if loads is not None and loads.subscriptions.any() else None
    if stored is not None:
        head = element("tr", element("th", "Worker", scope="col"), [_head(t) for t in [*columns, "Subscriptions"]])
        columns["Subscriptions"] = stored.astype(np.float64)
    body = [_worker(worker, columns) for worker in range(view.plan.workers)]
    table = element("table", element("thead", head), element("tbody", body), class_="balance")
    return joined(_summary(view, loads), element("div", table, class_="scroll", tabindex=0, role="region",
                                                 aria_label="Load of each worker"))  # fmt: skip


def _head(title: str) -> Markup:
    return element("th", title, scope="col")


def _worker(worker: int, columns: dict[str, np.ndarray]) -> Markup:
    swatch = element("span", class_=f"swatch w{worker % COLOURS}", aria_hidden="true")
    cells = []
    for title, values in columns.items():
        most, value = float(values.max(initial=0.0)), float(values[worker])
        shown = (
            percent(value / values.sum()) if title == "Predicted load" and values.sum() > 0 else _number(title, value)
        )
        width = f"--part:{100 * value / most if most > 0 else 0:.1f}%"
        bar = element("span", class_=f"bar w{worker % COLOURS}", style=width, aria_hidden="true")
        cells.append(element("td", element("span", shown, class_="value"), bar, data_label=title))
    return element("tr", element("th", swatch, f"Worker {worker}", scope="row"), cells)


def _number(title: str, value: float) -> str:
    if title == "CPU seconds":
        return f"{value:.2f}"
    return whole(value) if value < 1e6 else short(value)


def _summary(view: PlanView, loads: MeasuredLoads | None) -> Markup:
    predicted = np.array(view.worker_loads)
    facts = [f"Predicted: the most loaded worker has {_times(predicted)} the mean load."]
    if loads is not None and not loads.empty:
        cpu = loads.workers["cpu_seconds"]
        facts.append(f"Measured: the busiest worker took {_times(cpu)} the mean CPU time.")
        if cpu.min() < _LEAST_CPU_SECONDS:
            facts.append("Too little CPU time was measured to compare the two.")
        elif view.plan.workers >= 3 and cpu.std() > 0 and predicted.std() > 0:
            r = float(np.corrcoef(predicted, cpu)[0, 1])
            facts.append(f"Correlation of predicted load and CPU time over the workers: {r:.2f}.")
    return element("p", " ".join(facts), class_="note")


def _times(values: np.ndarray) -> str:
    mean = float(values.mean()) if len(values) else 0.0
    return f"{values.max() / mean:.2f} times" if mean > 0 else "– times"
