"""Plan changes that are approved or skipped without a question; test_dag_runs.py asks a person."""

from typing import Any

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]


def execute_approval(after: int, **params: bool) -> Any:
    from pststream.airflow.tasks.plan_change import Approval

    summary = {"plan_version_before": 3, "plan_version": after, "reason": "measured imbalance 1.1"}
    operator = Approval(task_id="approve", summary=summary)
    return operator.execute({"params": {"dry_run": False, "approval": False, **params}})


def test_a_change_is_approved_without_a_question() -> None:
    assert execute_approval(4) is None


@pytest.mark.parametrize("approval", [False, True])
def test_nothing_to_apply_and_dry_runs_are_skipped(approval: bool) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException, match="nothing to apply: measured imbalance 1.1"):
        execute_approval(3, approval=approval)
    with pytest.raises(AirflowSkipException, match="dry run"):
        execute_approval(4, dry_run=True, approval=approval)


@pytest.mark.parametrize(("variable", "default"), [("", False), ("true", True)])
def test_the_environment_sets_the_default_of_approval(
    monkeypatch: pytest.MonkeyPatch, variable: str, default: bool
) -> None:
    from pststream.airflow.tasks.plan_change import confirmation_fields

    monkeypatch.setenv("PSTSTREAM_APPROVAL", variable)
    assert confirmation_fields()["approval"].value is default
