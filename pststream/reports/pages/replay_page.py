"""Write the HTML page of a replay (`replay --page`): figures and worker loads as recorded and under the tried plan."""

from pathlib import Path
from typing import Any

from pststream.base import names
from pststream.base.utc_times import utc_now
from pststream.reports.commands.replay_comparison import (
    describe_differences,
    describe_head,
    describe_matches,
    figure_rows,
)
from pststream.reports.pages.render_page import render_page
from pststream.reports.pages.topk_section import balance_units


def write_replay(path: Path, home: str, document: dict[str, Any]) -> None:
    """Write the page; `document`: the result of pipeline/replan/replay.py."""
    was, would_be = (document[side]["worker_seconds"] for side in ("was", "would_be"))
    topk = document.get("topk")
    workers = max(len(was), len(would_be))
    page = render_page(
        "replay.html",
        home=home,
        head=describe_head(document),
        matches=describe_matches(document),
        differences=describe_differences(document),
        figures=figure_rows(document),
        loads=list(zip(_padded(was, workers), _padded(would_be, workers))),
        topk=balance_units(topk) if topk is not None and topk["planner"] != names.BY_BUCKET else None,
        max_seconds=max([*was, *would_be, 0.0]) or 1.0,
        made_at=utc_now(),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, "utf-8")


def _padded(seconds: list[float], workers: int) -> list[float]:
    return [*seconds, *[0.0] * (workers - len(seconds))]
