"""Write the HTML page of a comparison of planners (`plans compare --out`): throughput, worker loads, all figures."""

from pathlib import Path
from typing import Any

from pststream.reports.commands.planner_comparison import COLUMNS, describe_best, format_figure
from pststream.reports.pages.render_page import render_page


def write_comparison(document: dict[str, Any], out: str) -> None:
    """Write the page to the file `out`; `document`: the result of pipeline/replan/compare_planners.py."""
    plans = document["plans"]
    page = render_page(
        "comparison.html",
        document=document,
        verdict=describe_best(document),
        titles=[title for _, title in COLUMNS],
        rows=[[format_figure(figures[key], key) for key, _ in COLUMNS] for figures in plans],
        max_throughput=max(figures["throughput"] for figures in plans) or 1,
        max_seconds=max(seconds for figures in plans for seconds in [0.0, *figures["worker_seconds"]]) or 1.0,
    )
    Path(out).write_text(page, "utf-8")
