"""The plan of `topk` is shown as it was made, and by answer bucket if there is none; measured planners are a table."""

from pststream.reports.commands.comparisons import render_topk_comparison
from pststream.reports.commands.topk_plan import render_topk_plan


def test_a_plan_as_text() -> None:
    plan = {
        "plan_version": 3, "topk_version": 2, "planner": "keyword_first", "way": "words_first", "first": 3, "second": 7,
        "unit_loads": [2.0] * 20 + [1.0], "unit_seconds": [0.5, 0.25, *[0.0] * 19], "measured_batches": 7,
        "unit_objects": [1200, *[0] * 20], "unit_subscriptions": [34, *[0] * 20],
        "measured_imbalance": 2.0, "replication": 1.25, "copies": 2.5, "imbalance": 2.0, "seconds": 0.5,
        "created_at": "2026-01-02T03:04:05+00:00",
    }  # fmt: skip
    lines = render_topk_plan(plan).splitlines()
    head = "plan 3, topk: keyword_first, 21 units: 3 parts of words, each divided by the space into 7; made at"
    assert lines[0].startswith(f"{head} 2026-01-02T03:04:05 in ")
    assert lines[1].startswith("1.25 units a subscription, 2.5 units an object, imbalance 2 ")
    assert lines[-1] == "... and 1 unit more"
    assert lines[2] == "measured in 7 batches: imbalance 2 (CPU seconds of the search)"
    assert [line.split() for line in lines[4:6]] == [
        ["unit", "load", "CPU", "s", "objects", "subscriptions"],
        ["0", "2", "0.5", "1,200", "34"],
    ]


def test_a_home_without_a_plan_of_topk() -> None:
    text = render_topk_plan({"plan_version": 1, "topk_version": None, "planner": "hash"})
    assert text == "plan 1, topk: hash; candidates are found by answer bucket"


def test_measured_planners_as_text() -> None:
    figures = {
        "throughput": 12_000, "total_us": 3.5, "slowest_us": 1.25, "imbalance": None, "model_imbalance": 1.5,
        "model_correlation": None, "replication": 1.9, "copies": 4.5, "route_us": 0.5, "plan_seconds": 0.1, "pairs": 77,
    }  # fmt: skip
    document = {"plans": [{"planner": "prefix", **figures}], "objects": 1000, "subscriptions": 50, "workers": 4}
    lines = render_topk_comparison(document).splitlines()
    cells = lines[1].replace("infinite (idle worker)", "idle").split()
    assert cells == ["prefix", "12,000", "3.5", "1.25", "idle", "1.5", "-", "1.9", "4.5", "0.5", "0.1", "77"]
    assert lines[-1] == "50 sampled subscriptions, 1,000 objects, 4 units"
