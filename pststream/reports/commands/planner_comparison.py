"""Render measured figures of several planners as a text table with a verdict (`pststream plans compare`).

pipeline/replan/compare_planners.py measures the figures; pages/comparison_page.py writes them as a page.
"""

from typing import Any

from pststream.base.format_values import whole_or_short
from pststream.base.text_tables import table_lines
from pststream.plans.imbalance import imbalance_text

COLUMNS: tuple[tuple[str, str], ...] = (
    ("planner", "planner"),
    ("throughput", "tuples/s"),
    ("load_total", "total CPU s"),
    ("max_seconds", "slowest CPU s"),
    ("imbalance", "imbalance"),
    ("model_imbalance", "model imbalance"),
    ("copies", "copies per object"),
    ("subscriptions_stored", "subscriptions stored"),
    ("discarded", "discarded"),
    ("dispatch_seconds", "dispatch CPU s"),
    ("dispatch_bytes", "dispatch bytes"),
    ("worker_bytes", "bytes of a worker"),
    ("units", "units"),
    ("seconds", "planned in s"),
    ("model_total", "model total s"),
    ("model_correlation", "model corr."),
)
"""Key and title of each figure; `throughput` is tuples over the CPU seconds of the slowest worker."""

_REASONS = (
    ("load_total", "CPU seconds in all"),
    ("imbalance", "imbalance"),
    ("copies", "copies of an object"),
    ("subscriptions_stored", "stored subscriptions"),
)
_CLEARLY_LESS = 0.98


def render_comparison(document: dict[str, Any]) -> str:
    """The figures of each planner as a table, and the verdict."""
    rows = [[title for _, title in COLUMNS]]
    rows += [[format_figure(figures[key], key) for key, _ in COLUMNS] for figures in document["plans"]]
    return "\n".join([*table_lines(rows), "", describe_best(document)])


def describe_best(document: dict[str, Any]) -> str:
    """Which planner is best, by how much, and what makes the difference to the next one."""
    best, *others = document["plans"]
    text = f"{best['planner']} is best: {best['throughput']:,} tuples/s over {document['workers']} workers"
    if not others:
        return f"{text}."
    second = others[0]
    ahead = best["throughput"] / max(second["throughput"], 1) - 1
    reasons = [
        f"{name} {_in_full(best[key], key)} against {_in_full(second[key], key)}"
        for key, name in _REASONS
        if _is_clearly_less(best[key], second[key])
    ]
    why = "; ".join(reasons) or "its most loaded worker has less to do"
    return f"{text}, {100 * ahead:.0f}% ahead of {second['planner']} ({why})."


def _is_clearly_less(value: float | None, other: float | None) -> bool:
    """Compare figures; None is an imbalance with an idle worker, and greater than any number."""
    return value is not None and (other is None or value < _CLEARLY_LESS * other)


def _in_full(value: float | None, key: str) -> str:
    return imbalance_text(value) if "imbalance" in key else f"{value:,}"


def format_figure(value: Any, key: str) -> str:
    """A figure as text; a dash for None, unless it is an imbalance."""
    if "imbalance" in key:
        return imbalance_text(value)
    if value is None:
        return "-"
    return whole_or_short(value) if isinstance(value, int) else str(value)
