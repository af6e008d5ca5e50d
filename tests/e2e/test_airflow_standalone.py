"""The real thing: `make airflow` on a free port, DAGs triggered through the REST API with values of their forms."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from pststream import names
from tests.commands import Home
from tests.dags.landing import ACCEPTED, PAIRS, REJECTED, fill

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.e2e]

ROOT = Path(__file__).parents[2]
START, RUN, STOP = 150.0, 240.0, 60.0
OVER = {"success", "failed"}


@dataclass
class Airflow:
    """A running Airflow, seen through its REST API."""

    url: str
    folder: Path
    token: str = ""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of an answer; raises HTTPError for 4xx and 5xx."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as response:
            return json.load(response)

    def log_in(self) -> None:
        """Take a token with the password that Airflow made up."""
        file = self.folder / "airflow" / "simple_auth_manager_passwords.json.generated"
        [(user, password)] = json.loads(file.read_text("utf-8")).items()
        answer = self.call("POST", "/auth/token", {"username": user, "password": password})
        self.token = answer["access_token"]

    def turn_on(self, dag: str) -> None:
        """Wait until the DAG was read, and unpause it."""
        wait_for(lambda: self.call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False}), START, f"DAG {dag}")

    def trigger(self, dag: str, form: dict[str, Any]) -> str:
        """Trigger a run with values of the form; its id."""
        body = {"logical_date": None, "conf": form}
        return self.call("POST", f"/api/v2/dags/{dag}/dagRuns", body)["dag_run_id"]

    def runs(self, dag: str) -> list[str]:
        """The ids of all runs."""
        return [run["dag_run_id"] for run in self.call("GET", f"/api/v2/dags/{dag}/dagRuns")["dag_runs"]]

    def end_of(self, dag: str, run: str) -> str:
        """Wait for the end of a run; its state."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}"
        return wait_for(lambda: (state := self.call("GET", path)["state"]) in OVER and state, RUN, f"run of {dag}")

    def states(self, dag: str, run: str) -> dict[str, str]:
        """The state of each task."""
        tasks = self.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in tasks}

    def xcom(self, dag: str, run: str, task: str) -> Any:
        """What a task returned."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value"
        return self.call("GET", path + "?deserialize=true")["value"]

    def events(self, dag: str) -> list[dict[str, Any]]:
        """The asset events that runs of the DAG wrote."""
        return self.call("GET", f"/api/v2/assets/events?source_dag_id={dag}")["asset_events"]

    def log(self, dag: str, run: str, task: str) -> str:
        """The log of a task's first try."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/1?full_content=true"
        return json.dumps(self.call("GET", path))


def wait_for(attempt: Any, seconds: float, what: str) -> Any:
    """Try until it gives something; errors of HTTP and of connecting mean: not yet."""
    deadline = time.monotonic() + seconds
    last: Any = None
    while time.monotonic() < deadline:
        try:
            if last := attempt():
                return last
        except (urllib.error.URLError, OSError, KeyError) as error:
            last = error
        time.sleep(0.5)
    raise AssertionError(f"{what}: not after {seconds:.0f} s; last: {last}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processes_of(root: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return root.children(recursive=True)
    return []


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """Airflow in a temporary folder; ended by SIGTERM, and by its process ids if that does not do."""
    folder = tmp_path_factory.mktemp("standalone")
    fill(folder / "landing")
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    environment |= {"PSTSTREAM_MICRO_BATCH_SCHEDULE": "none", "PSTSTREAM_REPARTITION_SCHEDULE": "none"}
    environment |= {"PSTSTREAM_WORKERS": "2", "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
    command = [sys.executable, str(ROOT / "infra" / "run_airflow.py"), f"--port={port}"]
    command += [f"--airflow-home={folder}/airflow", f"--home={folder}/home", f"--landing={folder}/landing"]
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    started: list[psutil.Process] = []
    try:
        here = Airflow(f"http://127.0.0.1:{port}", folder)
        wait_for(lambda: "log in" in (folder / "output.txt").read_text() or process.poll(), START, "Airflow")
        assert process.poll() is None, (folder / "output.txt").read_text()
        started = processes_of(psutil.Process(process.pid))
        assert len(started) >= 5
        here.log_in()
        yield here
        started += processes_of(psutil.Process(process.pid))
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP) == 0
        assert [left for left in started if left.is_running() and left.status() != psutil.STATUS_ZOMBIE] == []
    finally:
        started += processes_of(psutil.Process(process.pid)) if process.poll() is None else []
        for left in [process, *started]:
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                left.kill()
        process.wait()


@pytest.mark.timeout(400)
def test_a_bad_value_of_a_form_is_refused_before_any_task_runs(airflow: Airflow) -> None:
    airflow.turn_on("repartition")
    for form in ({"planner": "voronoi"}, {"workers": 0}, {"dry_run": "yes"}):
        with pytest.raises(urllib.error.HTTPError) as refused:
            airflow.trigger("repartition", form)
        assert 400 <= refused.value.code < 500
        assert next(iter(form)) in refused.value.read().decode()
    assert airflow.runs("repartition") == []


@pytest.mark.timeout(400)
def test_the_scheduler_runs_a_micro_batch_with_a_form_value(airflow: Airflow) -> None:
    airflow.turn_on("micro_batch")
    run = airflow.trigger("micro_batch", {"max_objects": 3})
    assert airflow.end_of("micro_batch", run) == "success", airflow.log("micro_batch", run, "match")
    assert set(airflow.states("micro_batch", run).values()) == {"success"}
    summary = airflow.xcom("micro_batch", run, "match")
    assert (summary["accepted"], summary["rejected"]) == (ACCEPTED, REJECTED)
    assert (summary["batches"], summary["matches"]) == (2, len(PAIRS))
    [event] = airflow.events("micro_batch")
    assert event["extra"]["table_version"] == summary["table_version"]
    assert event["uri"].rstrip("/") == names.MATCHES_ASSET
    assert "batch 2" in airflow.log("micro_batch", run, "match")
    found = [(object_id, subscription_id) for object_id, _, subscription_id in Home(airflow.folder / "home").exported()]
    assert found == PAIRS


@pytest.mark.timeout(400)
def test_the_scheduler_makes_a_plan_with_form_values(airflow: Airflow) -> None:
    airflow.turn_on("repartition")
    run = airflow.trigger("repartition", {"planner": "grid", "workers": 3, "dry_run": True})
    assert airflow.end_of("repartition", run) == "success", airflow.log("repartition", run, "plan")
    assert airflow.states("repartition", run) == {"plan": "success", "show": "success", "publish": "skipped"}
    loads = airflow.xcom("repartition", run, "plan")
    assert (loads["after"]["planner"], loads["after"]["workers"]) == ("grid", 3)
    assert loads["before"]["plan_version"] == 1
    assert "imbalance" in airflow.log("repartition", run, "show")
    assert Home(airflow.folder / "home").run("plans", "show")["plan_version"] == 1
