"""The comparison of planners as text and as a page, with one planner, with several, and without measurements."""

from pathlib import Path
from typing import Any

from pststream.reports.commands.comparisons import describe_best, render_comparison
from pststream.reports.pages.comparison_page import write_comparison


def figures(planner: str, throughput: int, seconds: list[float], **changed: Any) -> dict[str, Any]:
    return {
        "planner": planner, "throughput": throughput, "worker_seconds": seconds, "load_total": sum(seconds),
        "max_seconds": max(seconds), "imbalance": 1.5, "copies": 1.25, "subscriptions_stored": 12_345_678,
        "discarded": 7, "dispatch_seconds": 0.5, "dispatch_bytes": 1_000, "worker_bytes": 2_000, "units": 8,
        "seconds": 0.25, "model_total": 3.5, "model_imbalance": 1.25, "model_correlation": None, **changed,
    }  # fmt: skip


def document(*plans: dict[str, Any]) -> dict[str, Any]:
    return {"plans": list(plans), "workers": 2, "objects": 1, "requests": 2_000, "matches": 1}


def test_the_best_planner_is_named_with_what_makes_the_difference() -> None:
    best, next_one = figures("hybrid", 1_500, [1.0, 1.0]), figures("grid", 1_000, [2.0, 1.0])
    text = render_comparison(document(best, next_one))
    assert (
        "hybrid is best: 1,500 tuples/s over 2 workers, 50% ahead of grid (CPU seconds in all 2.0 against 3.0)." in text
    )
    assert describe_best(document(best)) == "hybrid is best: 1,500 tuples/s over 2 workers."
    same = {**next_one, "load_total": 2.0}
    assert describe_best(document(best, same)).endswith("(its most loaded worker has less to do).")


def test_an_idle_worker_is_the_worst_imbalance() -> None:
    best, idle = figures("hybrid", 1_500, [1.0, 1.0]), figures("grid", 1_000, [2.0, 0.0], imbalance=None)
    assert "imbalance 1.5 against infinite (idle worker))" in describe_best(document(best, idle))
    assert "imbalance" not in describe_best(document(idle, best)) + describe_best(document(idle, idle))
    text = render_comparison(document(best, {**idle, "model_imbalance": None}))
    assert text.count("infinite (idle worker)") == 3, "both figures of the table, and the verdict"


def test_the_page_has_every_planner_and_worker(tmp_path: Path) -> None:
    hostile = figures("<b>grid", 1_000, [2.0, 1.0])
    write_comparison(document(figures("hybrid", 1_500, [1.0, 0.0]), hostile), str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "Each plan processed 1 object and 2,000 requests, with the same 1 match." in page
    assert "&lt;b&gt;grid" in page and "<b>" not in page
    assert "1,500 tuples/s" in page and "--part:66.7%" in page and ">2.000<" in page


def test_a_comparison_without_work_can_be_shown(tmp_path: Path) -> None:
    write_comparison(document(figures("grid", 0, [0.0, 0.0])), str(tmp_path / "page.html"))
    assert "--part:0.0%" in (tmp_path / "page.html").read_text("utf-8")
