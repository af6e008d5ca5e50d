"""Summaries of job results: small totals for an XCom, and a table of moves."""

import json

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]

BATCH = {"batch_id": 1, "plan_version": 2, "objects": 5, "discarded": 1, "requests": 2, "matches": 4, "retractions": 0}


def test_counts_of_a_run_are_summed() -> None:
    from pststream.airflow.tasks.summaries import summarize_batches

    ingested = {"files": 1, "files_skipped": 0, "files_pending": 3, "rows": 9, "accepted": 6, "rejected": 3}
    result = {
        "ingest": {
            "objects": ingested | {"rejects_by_reason": {"late": 2, "duplicate": 1}, "data_docs": ["/h/data_docs/1"]},
            "requests": ingested | {"rejects_by_reason": {"late": 3}},
        },
        "match": {
            "batches": [
                BATCH | {"seconds": {"index": 1.0, "match": 2.5}},
                BATCH | {"batch_id": 2, "plan_version": 3, "seconds": {"match": 0.5}},
            ]
        },
        "table_version": 12,
        "balance": {"violated": False},
        "home": "/h",
        "questions": {
            "files": 2, "questions": 5, "rejected": 1, "rows": 40, "seconds": {"answer": 0.5, "write": 0.25},
            "answers": ["/landing/answers/a.parquet"],
        },
    }  # fmt: skip
    summary = summarize_batches({"exit_code": 3, "result": result})
    assert summary == {
        "batches": 2, "batch_id": 2, "plan_version": 3, "table_version": 12, "seconds": 4.0,
        "balance": {"violated": False}, "home": "/h",
        "objects": 10, "discarded": 2, "requests": 4, "matches": 8, "retractions": 0,
        "files": 2, "files_pending": 6, "accepted": 12, "rejected": 6, "rejects_by_reason": {"late": 5, "duplicate": 1},
        "data_docs": ["/h/data_docs/1"],
        "answered": {"files": 2, "questions": 5, "rejected": 1, "rows": 40, "seconds": 0.75},
    }  # fmt: skip
    assert len(json.dumps(summary)) < 1000


def test_a_run_with_nothing_new_sums_to_nothing() -> None:
    from pststream.airflow.tasks.summaries import summarize_batches

    summary = summarize_batches({"result": {"ingest": {}, "match": {"batches": []}, "table_version": 0}})
    assert summary["batches"] == summary["matches"] == summary["rejected"] == 0
    assert summary["plan_version"] is None and summary["answered"]["files"] == 0


MOVED = {
    "kind": "local", "dry_run": True, "reason": "measured imbalance 3", "measured_imbalance": 3.0,
    "plan_version_before": 1, "plan_version_after": 2, "moved_subscriptions": 12, "moved_bytes": 3400,
    "expected_gain": 0.25,
    "moves": [
        {"origin": 0, "target": 1, "cells": 4, "terms": None, "reason": "gr"},
        {"origin": 0, "target": 1, "cells": 1, "terms": 7, "reason": "split"},
    ],
    "load_before": [4.0, 2.0], "load_after": [3.0, 3.0], "seconds": 1.5,
}  # fmt: skip


def test_the_moves_table_has_moves_and_bars() -> None:
    from pststream.airflow.tasks.summaries import moves_table, summarize_balance

    summary = summarize_balance({"result": MOVED})
    assert (summary["plan_version"], summary["plan_version_before"], summary["gain"]) == (2, 1, 0.25)
    assert len(json.dumps(summary)) < 1000
    lines = moves_table(summary).splitlines()
    assert "measured imbalance 3" in lines[0]
    assert "  4 raster cells from worker 0 to 1, gr" in lines
    assert "  7 terms of 1 raster cell from worker 0 to 1, split" in lines
    assert "12 subscriptions to move, about 3.4 kB; expected gain 25.0%" in lines
    assert [line.count("#") for line in lines[-4:]] == [40, 30, 20, 30]


def test_an_xcom_is_bounded_and_says_what_is_cut() -> None:
    from pststream.airflow.runners.job_outcome import XCOM_BYTES, within_xcom
    from pststream.airflow.tasks.summaries import moves_table, summarize_balance

    summary = summarize_balance({"result": MOVED})
    assert within_xcom(summary) is summary
    many = {"moves": MOVED["moves"] * 5000, "load_before": [4.0, 2.0] * 5000, "load_after": [3.0] * 10_000}
    short = within_xcom(summarize_balance({"result": MOVED | many}) | {"was": {"worker_seconds": [0.25] * 10_000}})
    assert XCOM_BYTES / 4 < len(json.dumps(short)) <= XCOM_BYTES
    lengths = {"moves": 10_000, "load_before": 10_000, "load_after": 10_000, "was.worker_seconds": 10_000}
    assert short["cut"] == lengths and short["moved_subscriptions"] == 12
    text = moves_table(short)
    assert f"the first {len(short['moves'])} of 10000 moves" in text and "of 10000 workers" in text
    assert "imbalance    2 before, 1 after" in text


def test_the_moves_table_without_moves_or_without_figures() -> None:
    from pststream.airflow.tasks.summaries import moves_table, summarize_balance

    stays = {"reason": "within 1.3", "plan_version_before": 4, "plan_version_after": 4, "moves": []}
    assert moves_table(summarize_balance({"result": stays})) == "within 1.3\nplan 4 stays in force"
    new_index = MOVED | {"moved_subscriptions": None, "moved_bytes": None, "expected_gain": None, "moves": []}
    table = moves_table(summarize_balance({"result": new_index | {"load_after": [1.0, 2.0, 3.0]}}))
    assert "subscriptions" not in table and "worker 2" in table
