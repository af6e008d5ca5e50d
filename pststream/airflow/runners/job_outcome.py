"""Read the outcome that a job writes to its result file, and raise the error that decides about a retry."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

DONE, REFUSED, DONE_WITH_REJECTS = 0, 2, 3
RUNNER_BUSY = "RunnerBusy"
"""The kind of error of a run that leaves the work to a watcher or to another run."""

QUESTIONS_BUSY = "QuestionsBusy"
"""The kind of error of a job while another process answers questions, which does the work of ANSWER_QUESTIONS only."""

ANSWER_QUESTIONS = "answer_questions"

WORK_WAITS = "WorkWaits"
"""The kind of error of a job that was to run only if there is no work."""


XCOM_BYTES = 48_000
"""The most that a task stores: Airflow's database keeps each XCom in a row, and its API reads it whole."""


class JobRefused(AirflowFailException):
    """The job refused its arguments, settings or input; a retry would end the same way."""


class JobFailed(AirflowException):
    """The job failed and may be run again as it is."""


class JobLost(AirflowException):
    """The job left no result: it was killed, ran out of memory, or never started."""


RETRY_POLICY = ExceptionRetryPolicy(
    rules=[
        RetryRule(JobRefused, RetryAction.FAIL, reason="a retry would end the same way"),
        RetryRule(JobFailed, RetryAction.RETRY, timedelta(seconds=20), "the job failed and may be run again"),
        RetryRule(JobLost, RetryAction.RETRY, timedelta(minutes=1), "the job was killed or could not start"),
    ]
)
"""By kind of error. Every job is idempotent, so a retry never writes anything twice."""


def read_outcome(file: Path) -> dict[str, Any] | None:
    """Return the content of the job's result file; None if there is none."""
    try:
        return json.loads(file.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def check_outcome(job: str, outcome: dict[str, Any] | None, cause: Exception | None) -> None:
    """Raise unless the job is done, with or without rejects; AirflowSkipException if another process does its work."""
    if outcome is None:
        exit_code = str(cause or "none").rpartition("Error code is: ")[2]
        raise JobLost(f"job {job} left no result; it was killed, or never started. Exit code: {exit_code}") from None
    if outcome["exit_code"] in (DONE, DONE_WITH_REJECTS):
        return
    busy = outcome.get("kind")
    if busy == RUNNER_BUSY or (busy == QUESTIONS_BUSY and job == ANSWER_QUESTIONS):
        raise AirflowSkipException(outcome["error"])
    kind = JobRefused if outcome["exit_code"] == REFUSED else JobFailed
    raise kind(f"job {job} ended with {outcome['exit_code']}: {outcome['error']}") from None


def within_xcom(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document whose JSON has at most XCOM_BYTES; the same one if it has.

    Its longest lists, by bytes, are cut; `cut` has how many entries each had, by its keys with dots between.
    """
    if len(json.dumps(document, default=str)) <= XCOM_BYTES:
        return document
    short: dict[str, Any] = json.loads(json.dumps(document, default=str)) | {"cut": {}}
    while len(json.dumps(short)) > XCOM_BYTES:
        name, longest = max(_lists_in(short), key=lambda one: len(json.dumps(one[1])), default=("", []))
        if not longest:
            break  # of texts
        short["cut"].setdefault(name, len(longest))
        del longest[len(longest) // 2 :]
    return short


def _lists_in(document: dict[str, Any], place: str = "") -> Iterator[tuple[str, list[Any]]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _lists_in(value, f"{place}{key}.")
        elif isinstance(value, list):
            yield f"{place}{key}", value
