"""With the driver on a node of a cluster, XCom, errors and retries are those of a job on the task's machine."""

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pststream.base import names
from pststream.pipeline.jobs.job import report
from tests.commands import Home
from tests.dags.dag_runs import FinishedRun
from tests.dags.landing_folder import PAIRS, fill_landing
from tests.lean_jvm import LEAN
from tests.spark_cluster import LEAN_DRIVER, Cluster, cluster_for_drivers, connection_for_drivers

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster; the connection asks for drivers on its nodes."""
    connection = connection_for_drivers()
    monkeypatch.setenv(f"AIRFLOW_CONN_{names.SPARK_CONNECTION.upper()}", json.dumps(connection))
    with cluster_for_drivers(tmp_path / "cluster", connection, "first", "second") as running:
        yield running


def test_an_outcome_is_found_by_run_task_and_try(tmp_path: Path) -> None:
    from pststream.airflow.runners.cluster_mode import outcome_name, read_outcome_of

    task = SimpleNamespace(dag_id="d", run_id="manual__2026-01-01T00:00:00+00:00/x", task_id="t", map_index=-1)
    task.try_number = 1
    first = outcome_name(task)
    assert first == "outcomes/d/manual__2026-01-01T00-00-00-00-00-x/t-1.json"
    task.try_number, task.map_index = 2, 0
    assert outcome_name(task).endswith("/t-0-2.json")
    home = str(tmp_path)
    assert read_outcome_of(home, first) is None
    outcome = {"command": "run", "exit_code": 3, "error": None, "result": {"a": 1}}
    assert report(f"{home}/{first}", outcome) == 3
    assert read_outcome_of(home, first) == outcome


@pytest.mark.parametrize(("seconds", "outcome"), [(0.0, None), (60.0, "{}")])
def test_a_trigger_waits_for_an_outcome_in_a_home_that_it_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, outcome: str | None
) -> None:
    from airflow.triggers.base import TriggerEvent

    from pststream.airflow.runners import outcome_trigger

    async def event_of(home: Path) -> TriggerEvent:
        path, words = outcome_trigger.OutcomeTrigger(str(home), "outcome.json").serialize()
        trigger = getattr(outcome_trigger, path.rpartition(".")[2])(**words)
        return await anext(trigger.run())

    async def write_later() -> TriggerEvent:
        waiting = asyncio.create_task(event_of(tmp_path))
        await asyncio.sleep(0.3)
        assert waiting.done() == (seconds == 0)
        if outcome is not None:
            (tmp_path / "outcome.json").write_text(outcome, "utf-8")
        return await waiting

    monkeypatch.setattr(outcome_trigger, "LOOK_SECONDS", seconds)
    monkeypatch.setattr(outcome_trigger, "HOME_SECONDS", 0.1)
    monkeypatch.setattr(outcome_trigger, "POLL_SECONDS", 0.05)
    assert asyncio.run(event_of(tmp_path / "nowhere")).payload is False
    (tmp_path / names.HOME_MARK).touch()
    assert asyncio.run(write_later()).payload is True


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.timeout(900)
def test_a_driver_on_the_cluster_ends_as_a_local_job_and_is_submitted_once(
    dagbag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("PSTSTREAM_SIGMA", "100000")
    monkeypatch.setenv("PSTSTREAM_SPARK_DRIVER_MEMORY", "512m")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", LEAN)
    monkeypatch.delenv("PSTSTREAM_ENGINE", raising=False)
    landing, dag = str(fill_landing(tmp_path / "landing")), dagbag.dags["pststream_micro_batch"]
    local, remote = Home(tmp_path / "local"), Home(tmp_path / "remote")
    with monkeypatch.context() as patch:
        patch.setenv("PSTSTREAM_ENGINE", "local")
        here = FinishedRun(dag, {"home": str(local.path), "landing": landing})

    # The task process is gone right after the submission; the next try finds the driver.
    match = dag.get_task("match")
    policy = ExceptionRetryPolicy([RetryRule(OSError, RetryAction.RETRY, timedelta(seconds=1))])
    monkeypatch.setattr(match, "conf", LEAN_DRIVER)
    monkeypatch.setattr(match, "retry_policy", policy)
    poll, polls = type(match).poll_until_complete, []
    resume, resumed = type(match).resume, []

    def recorded(self: Any, context: Any, event: bool) -> Any:
        resumed.append(event)
        return resume(self, context, event)

    monkeypatch.setattr(type(match), "resume", recorded)

    def killed_at_first(self: Any, external_id: Any, context: Any) -> None:
        polls.append(external_id)
        if len(polls) == 1:
            raise OSError("killed")
        poll(self, external_id, context)

    monkeypatch.setattr(type(match), "poll_until_complete", killed_at_first)
    there = FinishedRun(dag, {"home": str(remote.path), "landing": landing})
    assert there.states == here.states and there.tries["match"] == 2
    assert resumed == [True], "the task was deferred until the outcome was in the home"
    assert len(cluster.drivers) == 1
    measured = dict.fromkeys(("seconds", "home", "balance", "table", "answered"))
    assert there.xcom("match") | measured == here.xcom("match") | measured
    assert remote.exported() == local.exported()
    assert [(object_id, subscription_id) for object_id, _, subscription_id in remote.exported()] == PAIRS

    # A refusal on the cluster is not retried.
    monkeypatch.setenv("PSTSTREAM_ENGINE", "spark")
    refused = FinishedRun(dag, {"home": str(remote.path), "landing": str(tmp_path / "nowhere")})
    assert (refused.states["match"], refused.tries["match"]) == ("failed", 1)
    assert len(cluster.drivers) == 2
