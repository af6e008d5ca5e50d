"""The alert of a failed task has its remedy."""

from types import SimpleNamespace

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]


def test_the_message_has_task_error_remedy_and_log() -> None:
    from pststream.airflow.alerts import REMEDIES, failure_message
    from pststream.airflow.runners.job_outcome import JobRefused

    task = SimpleNamespace(dag_id="d", task_id="t", run_id="r", try_number=1, log_url="http://x")
    message = failure_message({"ti": task, "exception": JobRefused("home h: is not there")})
    for part in ("d.t", "run r", "try 1", "JobRefused: home h: is not there", REMEDIES["JobRefused"], "http://x"):
        assert part in message
    assert "unknown error" in failure_message({"ti": task})


def test_an_alert_shows_no_secret_of_a_url() -> None:
    from pststream.airflow.alerts import _fault, failure_message

    error = OSError("no answer: https://user:s3cr3t@h/a?token=s3cr3t")
    task = SimpleNamespace(dag_id="d", task_id="t", run_id="r", try_number=1, log_url="http://x")
    for text in (failure_message({"ti": task, "exception": error}), _fault(error, str(error))["why"]):
        assert "OSError: no answer: https://***@h/a?***" in text


def test_remedies_name_errors_that_exist() -> None:
    from pststream.airflow import alerts
    from pststream.airflow.dags import health
    from pststream.airflow.runners import job_outcome
    from pststream.airflow.tasks import micro_batch_tasks

    for name in alerts.REMEDIES:
        assert any(hasattr(module, name) for module in (job_outcome, micro_batch_tasks, health))
