"""Run a DAG with Airflow's own `dag.test`; give access to its states, XComs and asset events."""

import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


class FinishedRun:
    """Runs a DAG; afterwards its state, and the states and tries of its tasks."""

    def __init__(self, dag: Any, form: dict[str, Any]) -> None:
        self._run = dag.test(run_conf=form)
        self.run_id = self._run.run_id
        self.state = str(self._run.state)
        self.tries = {ti.task_id: ti.try_number for ti in self._run.get_task_instances()}
        self.states = {ti.task_id: str(ti.state) for ti in self._run.get_task_instances()}

    def xcom(self, task: str) -> Any:
        """Return the value that a task returned."""
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        with create_session() as session:
            wanted = {"run_id": self._run.run_id, "task_id": task, "key": "return_value"}
            return XComModel.deserialize_value(session.query(XComModel).filter_by(**wanted).one())

    def question(self, task: str) -> Any:
        """Return the question that a task asked, with its answer."""
        from airflow.models.hitl import HITLDetail
        from airflow.utils.session import create_session

        [asked] = [ti.id for ti in self._run.get_task_instances() if ti.task_id == task]
        with create_session(scoped=False) as session:
            return session.get(HITLDetail, asked)

    def events(self) -> list[dict[str, Any]]:
        """Return the extras of the asset events that the run wrote."""
        from airflow.models.asset import AssetEvent
        from airflow.utils.session import create_session

        with create_session() as session:
            events = session.query(AssetEvent).filter_by(source_run_id=self._run.run_id).all()
            return [event.extra for event in events]


def killed_once(dag: Any, form: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> FinishedRun:
    """Run a DAG whose task `match` is killed at PSTSTREAM_CRASH_AT in its first try; the second try starts soon."""
    from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

    from pststream.airflow.runners.job_outcome import JobLost

    job = dag.get_task("match")
    policy = ExceptionRetryPolicy([RetryRule(JobLost, RetryAction.RETRY, timedelta(seconds=1))])
    monkeypatch.setattr(job, "retry_policy", policy)
    monkeypatch.setattr(job, "on_retry_callback", [lambda context: monkeypatch.delenv("PSTSTREAM_CRASH_AT")])
    return FinishedRun(dag, form)


def answered(dag: Any, form: dict[str, Any], option: str, monkeypatch: pytest.MonkeyPatch) -> FinishedRun:
    """Run a DAG one of whose tasks asks a person, who chooses an option as the REST API takes it."""
    from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
    from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
    from airflow.sdk.definitions import dag as dag_test
    from airflow.utils.session import create_session

    run_task, person = dag_test._run_task, SimpleNamespace(get_id=lambda: "1", get_name=lambda: "a person")

    def run_and_answer(*, ti: Any, **arguments: Any) -> Any:
        result = run_task(ti=ti, **arguments)
        if ti.state == "awaiting_input":
            choice = UpdateHITLDetailPayload(chosen_options=[option])
            with create_session(scoped=False) as session:
                update_hitl_detail(ti.dag_id, ti.run_id, ti.task_id, choice, person, session)  # type: ignore[arg-type]
        return result

    monkeypatch.setattr(dag_test, "_run_task", run_and_answer)
    return FinishedRun(dag, form)


def bag_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the DAGs of a folder, which is the bundle of this Airflow for the test."""
    from airflow.dag_processing.dagbag import DagBag

    bundle = {"name": "dags-folder", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle"}
    bundle |= {"kwargs": {"path": str(folder)}}
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([bundle]))
    bag = DagBag(dag_folder=str(folder))
    assert bag.import_errors == {}
    return bag
