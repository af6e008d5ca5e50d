"""Texts of results: singular and plural, and only what there is to report."""

from typing import Any

from pststream.cli.result_texts import (
    describe_adjustment,
    describe_delivery,
    describe_ingest,
    describe_match,
    describe_plan,
    describe_replay,
)


def ingest(**changes: Any) -> dict[str, Any]:
    document = {
        "files": 1, "files_skipped": 0, "accepted": 1, "rejected": 0, "rejects_by_reason": {}, "quarantined": [],
        "mostly_rejected": [],
        "files_pending": 0, "pending": [], "data_docs": [],
    }  # fmt: skip
    return document | changes


def test_an_ingest() -> None:
    assert describe_ingest("objects", ingest()) == "objects: 1 file ingested; 1 row accepted"
    many = ingest(files=0, files_skipped=3, accepted=12_000, rejected=2, rejects_by_reason={"late": 1, "duplicate": 1})
    assert describe_ingest("objects", many).splitlines() == [
        "objects: 0 files ingested, 3 skipped: already ingested; 12,000 rows accepted, 2 rejected: 1 late, 1 duplicate",
        "  see: pststream rejects",
    ]


def test_a_file_with_more_rejected_than_accepted_rows() -> None:
    row = {"row": 7, "field": "ts", "reason": "late", "detail": "it is late", "raw": "2026"}
    file = {
        "path": "a\nb.csv", "accepted": 1, "rejected": 2_000, "reasons": {"duplicate": 1, "late": 1_999},
        "watermark": "2026-01-01T00:00:00Z", "lateness_seconds": 60, "max_ahead_seconds": 0, "examples": [row],
    }  # fmt: skip
    lines = describe_ingest("objects", ingest(mostly_rejected=[file])).splitlines()
    assert lines[1:] == [
        r"  a\nb.csv: 2,000 of 2,001 rows rejected: 1 duplicate, 1,999 late; watermark 2026-01-01T00:00:00Z, "
        "lateness_seconds = 60; to read ids again, first withdraw the file: pststream withdraw --file PATH",
        "    row 7: ts: late: it is late  2026",
    ]


def test_names_of_quarantined_and_pending_files_are_escaped() -> None:
    hold = {"hold_id": 3, "path": "a\nb.csv", "reasons": ["it is empty", "no header"]}
    pending = {"path": "c\x1b.csv", "reason": "no manifest"}
    text = describe_ingest(
        "objects", ingest(quarantined=[hold], files_pending=1, pending=[pending], data_docs=["h/i.html"])
    )
    assert text.splitlines()[1:] == [
        r"  quarantined as 3: a\nb.csv: it is empty; no header",
        "  see: pststream quarantine list",
        "  Data Docs: h/i.html",
        r"  1 file pending, the oldest: c\x1b.csv: no manifest",
    ]


def test_batches() -> None:
    assert describe_match({"batches": []}) == "nothing is pending"
    for batches, counts, text in (
        (1, {"objects": 1, "matches": 1, "changes": 0}, "1 batch: 1 object, 1 match"),
        (2, {"objects": 0, "matches": 2, "changes": 1}, "2 batches: 0 objects, 2 matches, 1 change of answers"),
        (1, {"objects": 9, "matches": 0, "changes": 7}, "1 batch: 9 objects, 7 changes of answers"),
        (1, {"objects": 9, "matches": 0, "changes": 0}, "1 batch: 9 objects, 0 matches"),
    ):
        assert describe_match({"batches": [{}] * batches, **counts}) == text


def test_deliveries() -> None:
    outcome = {"kind": "file", "state": "ok", "delivered": 2, "refused": 0, "batches_left": 0, "reason": None}
    down = outcome | {"state": "down", "batches_left": 1, "reason": "HTTP status 503"}
    assert describe_delivery({"sinks": {"a": outcome, "b": down}}).splitlines() == [
        "a (file): ok, 2 delivered, 0 refused",
        "b (file): down, 2 delivered, 0 refused, 1 batch left",
        "  HTTP status 503",
    ]
    replayed = {"a": {"delivered": 3, "dead": 1, "reason": None}, "b": {"delivered": 0, "dead": 0, "reason": "down"}}
    assert describe_replay({"sinks": replayed}).splitlines() == [
        "a: 3 delivered, 1 dead letter left",
        "b: 0 delivered, 0 dead letters left (down)",
    ]
    assert describe_delivery({"sinks": {}}) == describe_replay({"sinks": {}})


def test_a_plan_that_breaks_sigma() -> None:
    document = {
        "plan_version": 2, "planner": "hybrid", "workers": 8, "units": 9, "load_total": 8.0, "load_max": 2.0,
        "imbalance": 2.0, "sigma": 2.0,
    }  # fmt: skip
    within = "plan 2 (not saved): hybrid, 8 workers, 9 units; predicted load 8 s, greatest of a worker 2 s, imbalance 2"
    assert describe_plan(document, True) == within
    idle, warning = describe_plan(document | {"imbalance": None}, True).splitlines()
    assert idle == within.replace("imbalance 2", "imbalance infinite (idle worker)")
    assert warning == "  warning: the imbalance is over sigma, 2, the constraint of the plan"
    broken = describe_plan(document | {"sigma": 1.1}, False).splitlines()
    assert broken[1] == "  warning: the imbalance is over sigma, 1.1, the constraint of the plan"


def test_an_adjustment() -> None:
    unchanged = {"plan_version_before": 3, "plan_version_after": 3, "moves": [], "reason": "balanced"}
    assert describe_adjustment(unchanged) == "nothing to move: balanced"
    document = {
        "dry_run": True, "moved_subscriptions": 1, "moved_bytes": 2048, "plan_version_before": 3,
        "plan_version_after": 4, "reason": "imbalance 2", "retiring_version": None,
        "moves": [
            {"cells": 1, "terms": None, "origin": 0, "target": 1, "reason": "cells"},
            {"cells": 2, "terms": 5, "origin": -1, "target": 1, "reason": "terms"},
        ],
        "load_before": [2.0, 0.5], "load_after": [1.25, 1.25], "least_bytes": None,
    }  # fmt: skip
    assert describe_adjustment(document).splitlines() == [
        "would move 1 subscription (about 2.05 kB), plan 3 -> 4: imbalance 2",
        "  1 cell from worker 0 to 1 (cells)",
        "  5 terms of 2 cells (terms)",
        "worker  load before  load after",
        "     0            2        1.25",
        "     1          0.5        1.25",
        "nothing was changed; add --apply to apply this",
    ]
    applied = describe_adjustment(document | {"dry_run": False, "retiring_version": 3})
    assert applied.startswith("moved 1 subscription") and "--apply" not in applied
    assert "plan 3 continues to serve the existing subscriptions" in applied
    moved = {"dry_run": False, "moves": [], "moved_subscriptions": 0, "moved_bytes": 0, "load_before": []}
    more = describe_adjustment(document | {"least_bytes": 4096, "load_after": [1.0, 1.0, 0.5]}).splitlines()
    assert "takes 4.1 kB at least" in more[1] and more[-2].split() == ["2", "0", "0.5"]
    lines = describe_adjustment(document | moved).splitlines()
    assert lines == ["moved 0 subscriptions (about 0 bytes), plan 3 -> 4: imbalance 2"]
