"""Render measured figures of the planners of `topk` as a text table (`pststream plans compare --kinds topk`)."""

from typing import Any

from pststream.base.text_tables import table_lines
from pststream.plans.imbalance import imbalance_text

COLUMNS = (
    ("planner", "planner"),
    ("throughput", "objects/s"),
    ("total_us", "total CPU us"),
    ("slowest_us", "slowest CPU us"),
    ("imbalance", "imbalance"),
    ("model_imbalance", "model imbalance"),
    ("model_correlation", "corr."),
    ("replication", "units a subscription"),
    ("copies", "units an object"),
    ("route_us", "route CPU us"),
    ("plan_seconds", "planned in s"),
    ("pairs", "candidates"),
)
"""Key and title of each figure; microseconds are for an object."""


def render_topk_comparison(document: dict[str, Any]) -> str:
    """The figures of each planner as a table."""
    rows = [[title for _, title in COLUMNS]]
    rows += [[_figure(key, figures[key]) for key, _ in COLUMNS] for figures in document["plans"]]
    size = f"{document['subscriptions']:,} sampled subscriptions, {document['objects']:,} objects"
    return "\n".join([*table_lines(rows), "", f"{size}, {document['workers']} units"])


def _figure(key: str, value: Any) -> str:
    if "imbalance" in key:
        return imbalance_text(value)
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
