"""The operator's judgement of how a job ended, what is kept of it, and what is said when it failed."""

import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]

BATCH = {"batch_id": 1, "plan_version": 2, "objects": 5, "discarded": 1, "requests": 2, "matches": 4, "retractions": 0}


def outcome(exit_code: int, error: str | None = None) -> dict[str, Any]:
    return {"command": "run", "exit_code": exit_code, "error": error, "result": None}


@pytest.mark.parametrize("exit_code", [0, 3])
def test_done_is_done_whatever_spark_submit_says(exit_code: int) -> None:
    from pststream_dags.spark_job import check_outcome

    check_outcome("match", outcome(exit_code), RuntimeError("Error code is: 1"))


@pytest.mark.parametrize(
    ("exit_code", "kind", "action", "delay"),
    [
        (2, "JobRefused", "fail", None),
        (1, "JobFailed", "retry", timedelta(seconds=20)),
        (70, "JobFailed", "retry", timedelta(seconds=20)),
        (None, "JobLost", "retry", timedelta(minutes=1)),
    ],
)
def test_retries_go_by_the_kind_of_error(
    exit_code: int | None, kind: str, action: str, delay: timedelta | None
) -> None:
    from airflow.sdk.exceptions import AirflowException
    from pststream_dags.spark_job import RETRY_POLICY, check_outcome

    ended = None if exit_code is None else outcome(exit_code, "setting workers: 0 is less than 1")
    with pytest.raises(AirflowException) as caught:
        check_outcome("match", ended, AirflowException("Cannot execute: long. Error code is: 137.\nout of memory"))
    assert type(caught.value).__name__ == kind
    assert ("workers: 0" if ended else "137.\nout of memory") in str(caught.value)
    decision = RETRY_POLICY.evaluate(caught.value, try_number=1, max_tries=3)
    assert (decision.action.value, decision.retry_delay) == (action, delay)


def test_a_run_beside_a_watcher_is_skipped() -> None:
    from airflow.sdk.exceptions import AirflowSkipException
    from pststream_dags.spark_job import RUNNER_BUSY, check_outcome

    from pststream import errors

    assert errors.RunnerBusy.__name__ == RUNNER_BUSY
    with pytest.raises(AirflowSkipException, match="process 7"):
        check_outcome("micro_batch", outcome(1, "in use by pststream run (process 7)") | {"kind": RUNNER_BUSY}, None)


def test_other_errors_are_left_to_airflow() -> None:
    from pststream_dags.spark_job import RETRY_POLICY

    assert RETRY_POLICY.evaluate(TimeoutError(), try_number=1, max_tries=3).action.value == "default"


@pytest.mark.parametrize("text", [None, "", '{"exit_code": 0'])
def test_a_missing_or_torn_result_is_none(tmp_path: Path, text: str | None) -> None:
    from pststream_dags.spark_job import read_outcome

    if text is not None:
        (tmp_path / "result.json").write_text(text)
    assert read_outcome(tmp_path / "result.json") is None


def test_the_jvm_is_given_its_memory_and_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pststream_dags import spark_job

    (tmp_path / "b.jar").touch()
    (tmp_path / "a.jar").touch()
    monkeypatch.setattr(spark_job, "JARS", tmp_path)
    monkeypatch.setenv("PSTSTREAM_SPARK_DRIVER_MEMORY", "3g")
    conf = spark_job.spark_conf()
    assert conf["spark.driver.memory"] == "3g"
    assert conf["spark.jars"] == f"{tmp_path}/a.jar,{tmp_path}/b.jar"


def test_a_driver_is_on_loopback_unless_a_cluster_calls_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream_dags.spark_job import address

    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    loopback = {"SPARK_LOCAL_IP": "127.0.0.1"}
    assert [address(f"spark://{host}") for host in ("local", "local[2]", "local[*]")] == [loopback] * 3
    assert [address(f"spark://{host}") for host in ("spark://h:7077", "localhost", "h")] == [{}] * 3


def test_counts_of_a_run_are_summed() -> None:
    from pststream_dags.summaries import summarize_batches

    took = {"files": 1, "files_skipped": 0, "files_pending": 3, "rows": 9, "accepted": 6, "rejected": 3}
    result = {
        "ingest": {
            "objects": took | {"rejects_by_reason": {"late": 2, "duplicate": 1}},
            "requests": took | {"rejects_by_reason": {"late": 3}},
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
    }
    summary = summarize_batches({"exit_code": 3, "result": result})
    assert summary == {
        "batches": 2, "batch_id": 2, "plan_version": 3, "table_version": 12, "seconds": 4.0,
        "balance": {"violated": False}, "home": "/h",
        "objects": 10, "discarded": 2, "requests": 4, "matches": 8, "retractions": 0,
        "files": 2, "files_pending": 6, "accepted": 12, "rejected": 6, "rejects_by_reason": {"late": 5, "duplicate": 1},
    }  # fmt: skip
    assert len(json.dumps(summary)) < 1000


def test_a_run_with_nothing_new_sums_to_nothing() -> None:
    from pststream_dags.summaries import summarize_batches

    summary = summarize_batches({"result": {"ingest": {}, "match": {"batches": []}, "table_version": 0}})
    assert summary["batches"] == summary["matches"] == summary["rejected"] == 0
    assert summary["plan_version"] is None


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


def test_what_moves_is_told_with_bars() -> None:
    from pststream_dags.summaries import moves_table, summarize_balance

    summary = summarize_balance({"result": MOVED})
    assert (summary["plan_version"], summary["plan_version_before"], summary["gain"]) == (2, 1, 0.25)
    assert len(json.dumps(summary)) < 1000
    lines = moves_table(summary).splitlines()
    assert "measured imbalance 3" in lines[0]
    assert "  4 cells from worker 0 to 1, gr" in lines
    assert "  7 terms of 1 cells from worker 0 to 1, split" in lines
    assert "12 subscriptions move, about 3400 bytes; expected gain 25.0%" in lines
    assert [line.count("#") for line in lines[-4:]] == [40, 30, 20, 30]


def test_what_stays_and_what_a_plan_does_not_know_is_told() -> None:
    from pststream_dags.summaries import moves_table, summarize_balance

    stays = {"reason": "within 1.3", "plan_version_before": 4, "plan_version_after": 4, "moves": []}
    assert moves_table(summarize_balance({"result": stays})) == "within 1.3\nplan 4 stays"
    anew = MOVED | {"moved_subscriptions": None, "moved_bytes": None, "expected_gain": None, "moves": []}
    table = moves_table(summarize_balance({"result": anew | {"load_after": [1.0, 2.0, 3.0]}}))
    assert "subscriptions" not in table and "worker 2" in table


def test_a_page_has_an_address_once_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream_dags.common import file_name
    from pststream_dags.pages import address

    page = tmp_path / f"{file_name('manual__2026-03-01T00:00:00+00:00/../x')}.html"
    assert page.parent == tmp_path and page.name == "manual__2026-03-01T00-00-00-00-00-..-x.html"
    assert address(str(page)) == ""
    page.touch()
    assert address(str(page)).endswith(f"/pststream/pages/{page.name}")
    monkeypatch.setenv("PSTSTREAM_PAGES_URL", "https://pages.example")
    assert address(str(page)) == f"https://pages.example/{page.name}"


def test_a_job_without_spark_is_judged_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream_dags import plain_job
    from pststream_dags.spark_job import JobLost, JobRefused

    with pytest.raises(JobRefused, match="is not there"):
        plain_job.run_job("balance", ["check", f"--home={tmp_path}/nowhere"])
    (tmp_path / "mute.py").touch()
    monkeypatch.setattr(plain_job, "JOBS", tmp_path)
    with pytest.raises(JobLost):
        plain_job.run_job("mute", [])


def test_a_failure_is_told_with_its_remedy() -> None:
    from pststream_dags.alerts import REMEDIES, failure_message
    from pststream_dags.spark_job import JobRefused

    task = SimpleNamespace(dag_id="d", task_id="t", run_id="r", try_number=1, log_url="http://x")
    message = failure_message({"ti": task, "exception": JobRefused("home h: is not there")})
    for part in ("d.t", "run r", "try 1", "JobRefused: home h: is not there", REMEDIES["JobRefused"], "http://x"):
        assert part in message
    assert "unknown error" in failure_message({"ti": task})


def test_remedies_name_errors_that_exist() -> None:
    import micro_batch
    from pststream_dags import alerts, health, spark_job

    for name in alerts.REMEDIES:
        assert any(hasattr(module, name) for module in (spark_job, micro_batch, health))
