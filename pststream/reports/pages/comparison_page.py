"""Write the HTML pages of `plans compare --out` and `replay --page`: throughput, worker loads, all figures."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

from pststream.base import names
from pststream.base.utc_times import utc_now
from pststream.reports.commands.comparisons import (
    COLUMNS,
    describe_best,
    describe_differences,
    describe_head,
    describe_matches,
    figure_rows,
    format_figure,
)
from pststream.reports.pages.plan_sections import balance_units
from pststream.reports.pages.render_page import render_page
from pststream.storage.registry import Address, file_at


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


def write_replay(path: Address, home: str, document: dict[str, Any]) -> None:
    """Write the page; `document`: the result of pipeline/replan/replay.py."""
    was, would_be = (document[side]["worker_seconds"] for side in ("was", "would_be"))
    topk = document.get("topk")
    page = render_page(
        "replay.html",
        home=home,
        head=describe_head(document),
        matches=describe_matches(document),
        differences=describe_differences(document),
        figures=figure_rows(document),
        loads=list(zip_longest(was, would_be, fillvalue=0.0)),
        topk=balance_units(topk) if topk is not None and topk["planner"] != names.BY_BUCKET else None,
        max_seconds=max([*was, *would_be, 0.0]) or 1.0,
        made_at=utc_now(),
    )
    files, name = file_at(path)
    files.write(name, page.encode())
