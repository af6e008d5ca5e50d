"""The Spark operator maps the result of a job to success, skip, retry or failure."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]


def outcome(exit_code: int, error: str | None = None) -> dict[str, Any]:
    return {"command": "run", "exit_code": exit_code, "error": error, "result": None}


@pytest.mark.parametrize("exit_code", [0, 3])
def test_done_is_done_whatever_spark_submit_says(exit_code: int) -> None:
    from pststream.airflow.runners.job_outcome import check_outcome

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

    from pststream.airflow.runners.job_outcome import RETRY_POLICY, check_outcome

    ended = None if exit_code is None else outcome(exit_code, "setting workers: 0 is less than 1")
    with pytest.raises(AirflowException) as caught:
        check_outcome("match", ended, AirflowException("Cannot execute: long. Error code is: 137.\nout of memory"))
    assert type(caught.value).__name__ == kind
    assert ("workers: 0" if ended else "137.\nout of memory") in str(caught.value)
    decision = RETRY_POLICY.evaluate(caught.value, try_number=1, max_tries=3)
    assert (decision.action.value, decision.retry_delay) == (action, delay)


def test_a_run_beside_a_watcher_is_skipped() -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    from pststream.airflow.runners.job_outcome import ANSWER_QUESTIONS, QUESTIONS_BUSY, RUNNER_BUSY, check_outcome
    from pststream.base import errors

    assert (errors.RunnerBusy.__name__, errors.QuestionsBusy.__name__) == (RUNNER_BUSY, QUESTIONS_BUSY)
    for job, kind in (("micro_batch", RUNNER_BUSY), (ANSWER_QUESTIONS, QUESTIONS_BUSY)):
        with pytest.raises(AirflowSkipException, match="process 7"):
            check_outcome(job, outcome(1, "in use by pststream run (process 7)") | {"kind": kind}, None)


def test_a_job_that_answers_no_questions_is_not_skipped_while_others_do() -> None:
    """Maintenance would be left out: the process that answers questions does not do it."""
    from pststream.airflow.runners.job_outcome import QUESTIONS_BUSY, JobFailed, check_outcome

    with pytest.raises(JobFailed, match="process 7"):
        check_outcome("maintain", outcome(1, "in use by pststream run (process 7)") | {"kind": QUESTIONS_BUSY}, None)


def test_other_errors_are_left_to_airflow() -> None:
    from pststream.airflow.runners.job_outcome import RETRY_POLICY

    assert RETRY_POLICY.evaluate(TimeoutError(), try_number=1, max_tries=3).action.value == "default"


@pytest.mark.parametrize("text", [None, "", '{"exit_code": 0'])
def test_a_missing_or_incomplete_result_is_none(tmp_path: Path, text: str | None) -> None:
    from pststream.airflow.runners.job_outcome import read_outcome

    if text is not None:
        (tmp_path / "result.json").write_text(text)
    assert read_outcome(tmp_path / "result.json") is None


def test_the_jvm_is_given_its_memory_and_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pststream.airflow.runners import spark_job

    (tmp_path / "b.jar").touch()
    (tmp_path / "a.jar").touch()
    monkeypatch.setattr(spark_job, "JARS", tmp_path)
    monkeypatch.setenv("PSTSTREAM_SPARK_DRIVER_MEMORY", "3g")
    conf = spark_job.spark_conf()
    assert conf["spark.driver.memory"] == "3g"
    assert conf["spark.jars"] == f"{tmp_path}/a.jar,{tmp_path}/b.jar"


def test_the_memory_and_jars_of_an_operator_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pststream.airflow.runners import spark_job

    (tmp_path / "a.jar").touch()
    monkeypatch.setattr(spark_job, "JARS", tmp_path)
    monkeypatch.setenv("PSTSTREAM_SPARK_DRIVER_MEMORY", "3g")
    job = spark_job.SparkJob(
        task_id="t", job="match", arguments=[], driver_memory="5g", jars="/more.jar", conf={"x": "y"}
    )
    conf = job._spark_conf()
    assert (conf["spark.driver.memory"], conf["spark.jars"]) == ("5g", f"{tmp_path}/a.jar,/more.jar")
    assert conf["x"] == "y"


def test_a_driver_is_on_loopback_unless_a_cluster_calls_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream.airflow.runners.spark_job import driver_address

    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    loopback = {"SPARK_LOCAL_IP": "127.0.0.1"}
    assert [driver_address(f"spark://{host}") for host in ("local", "local[2]", "local[*]")] == [loopback] * 3
    assert [driver_address(f"spark://{host}") for host in ("spark://h:7077", "localhost", "h")] == [{}] * 3
