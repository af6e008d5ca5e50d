"""Both DAGs run as Airflow runs them, each task in its turn, on a small home: Spark is submitted, tables written."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Home
from tests.dags.landing import ACCEPTED, PAIRS, REJECTED, fill

pytestmark = [pytest.mark.airflow, pytest.mark.spark]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a landing folder, and room for the home; the tests here go on from each other's home."""
    folder = tmp_path_factory.mktemp("dags")
    fill(folder / "landing")
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that last seconds: few workers, and a JVM that does not compile twice."""
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


class Ran:
    """A DAG run that is over."""

    def __init__(self, dag: Any, form: dict[str, Any]) -> None:
        self._run = dag.test(run_conf=form)
        self.state = str(self._run.state)
        self.tries = {ti.task_id: ti.try_number for ti in self._run.get_task_instances()}
        self.states = {ti.task_id: str(ti.state) for ti in self._run.get_task_instances()}

    def xcom(self, task: str) -> Any:
        """What a task returned."""
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        with create_session() as session:
            wanted = {"run_id": self._run.run_id, "task_id": task, "key": "return_value"}
            return XComModel.deserialize_value(session.query(XComModel).filter_by(**wanted).one())

    def events(self) -> list[dict[str, Any]]:
        """The extras of the asset events that the run wrote."""
        from airflow.models.asset import AssetEvent
        from airflow.utils.session import create_session

        with create_session() as session:
            events = session.query(AssetEvent).filter_by(source_run_id=self._run.run_id).all()
            return [event.extra for event in events]


def pairs(home: Path) -> list[tuple[str, str]]:
    return [(object_id, subscription_id) for object_id, _, subscription_id in Home(home).exported()]


def form(place: Path, **fields: Any) -> dict[str, Any]:
    return {"home": str(place / "home"), "landing": str(place / "landing")} | fields


def test_a_strict_run_matches_what_it_accepted_and_fails_over_the_rest(dagbag: Any, place: Path) -> None:
    ran = Ran(dagbag.dags["micro_batch"], form(place, max_objects=3, strict=True))
    assert ran.states == {"match": "success", "publish": "success", "deliver": "success", "check_rejects": "failed"}
    assert ran.tries["check_rejects"] == 1, "rejected rows do not get better by a retry"
    summary = ran.xcom("match")
    assert (summary["accepted"], summary["rejected"]) == (ACCEPTED, REJECTED)
    assert summary["rejects_by_reason"] == {"out_of_range": 1}
    assert (summary["batches"], summary["objects"], summary["matches"]) == (2, 5, len(PAIRS))
    assert summary["plan_version"] == 1
    assert summary["table_version"] >= 1
    assert ran.events() == [summary]
    assert pairs(place / "home") == PAIRS


@pytest.mark.slow
def test_a_run_with_nothing_new_wakes_nobody(dagbag: Any, place: Path) -> None:
    ran = Ran(dagbag.dags["micro_batch"], form(place, strict=True))
    assert ran.state == "success"
    assert ran.states == {"match": "success", "publish": "skipped", "deliver": "success", "check_rejects": "success"}
    assert ran.events() == []
    assert pairs(place / "home") == PAIRS


def test_repartition_puts_a_new_plan_in_force(dagbag: Any, place: Path) -> None:
    ran = Ran(dagbag.dags["repartition"], {"home": str(place / "home"), "planner": "grid", "workers": 3})
    assert ran.state == "success"
    loads = ran.xcom("plan")
    assert loads["before"]["plan_version"] == 1
    assert (loads["after"]["plan_version"], loads["after"]["planner"], loads["after"]["workers"]) == (2, "grid", 3)
    assert ran.events() == [loads["after"]]
    assert "imbalance" in ran.xcom("show")
    assert Home(place / "home").run("plans", "show")["plan_version"] == 2


def test_load_is_adjusted_after_a_dry_run_says_how(dagbag: Any, place: Path) -> None:
    fields = {"home": str(place / "home"), "method": "gr", "sigma": 1.01, "dry_run": True}
    ran = Ran(dagbag.dags["adjust_load"], fields)
    assert ran.states == {"balance": "success", "show": "success", "publish": "skipped"}
    shown = ran.xcom("balance")
    assert shown["dry_run"] is True and "measured imbalance" in shown["reason"]
    assert shown["reason"] in ran.xcom("show")
    assert pairs(place / "home") == PAIRS


@pytest.mark.slow
def test_a_bad_input_is_not_tried_again(dagbag: Any, place: Path) -> None:
    ran = Ran(dagbag.dags["micro_batch"], form(place, landing=str(place / "nowhere")))
    others = dict.fromkeys(("publish", "check_rejects"), "upstream_failed")
    assert ran.states == others | {"match": "failed", "deliver": "success"}
    assert ran.tries["match"] == 1


@pytest.mark.slow
def test_a_missing_connection_is_not_tried_again(dagbag: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CONN_")]:
        monkeypatch.delenv(name)
    ran = Ran(dagbag.dags["micro_batch"], form(place))
    assert (ran.states["match"], ran.tries["match"]) == ("failed", 1)


@pytest.mark.slow
def test_a_killed_job_is_tried_again_and_doubles_nothing(
    dagbag: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule
    from pststream_dags.spark_job import JobLost

    monkeypatch.setenv("PSTSTREAM_CRASH_AT", "match.matched")
    dag = dagbag.dags["micro_batch"]
    job = dag.get_task("match")
    job.retry_policy = ExceptionRetryPolicy([RetryRule(JobLost, RetryAction.RETRY, timedelta(seconds=1))])
    job.on_retry_callback = [lambda context: monkeypatch.delenv("PSTSTREAM_CRASH_AT")]
    ran = Ran(dag, form(place, home=str(place / "other")))
    assert ran.state == "success"
    assert ran.tries["match"] == 2
    assert ran.xcom("match")["batches"] == 1
    assert pairs(place / "other") == PAIRS
