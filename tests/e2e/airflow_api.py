"""Run a real Airflow in tests (`make airflow` on a free port) and call its REST API."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.lean_jvm import LEAN
from tests.moto_process import free_port

ROOT = Path(__file__).parents[2]
START, RUN, STOP = 400.0, 600.0, 150.0
ASKING = 60.0
"""Seconds of retries after a status of 500: Airflow's SQLite is sometimes locked."""
READ_AGAIN = "150"
"""Seconds after which Airflow reads the file of a DAG again; its default is 30."""
TURNED_ON = ("MICRO_BATCH", "REPARTITION", "ADJUST_LOAD", "MAINTAIN", "QUESTIONS")
"""The DAGs that tests turn on. A run by the clock would make the runs that the tests trigger wait."""
OVER = {"success", "failed"}
READING = 5.0
"""Seconds that a person takes to read a question."""


@dataclass
class Airflow:
    """A running Airflow and its REST API."""

    url: str
    folder: Path
    token: str = ""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; return the JSON of the response; raise HTTPError for 4xx and 5xx."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + ASKING
        while True:
            try:
                with opener.open(request, timeout=120) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                if method != "GET" or error.code < 500 or time.monotonic() > deadline:
                    raise
            time.sleep(1)

    def log_in(self) -> None:
        """Log in with the password that Airflow generated."""
        file = self.folder / "airflow" / "simple_auth_manager_passwords.json.generated"
        [(user, password)] = json.loads(file.read_text("utf-8")).items()
        answer = self.call("POST", "/auth/token", {"username": user, "password": password})
        self.token = answer["access_token"]

    def turn_on(self, dag: str) -> None:
        """Wait until Airflow has read the DAG, and unpause it."""
        wait_for(lambda: self.call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False}), START, f"DAG {dag}")

    def trigger(self, dag: str, form: dict[str, Any]) -> str:
        """Trigger a run with values of the form, with retries while Airflow's SQLite is locked (500); return its id."""
        run = f"manual__{uuid.uuid4()}"
        body = {"dag_run_id": run, "logical_date": None, "conf": form}
        while True:
            try:
                return self.call("POST", f"/api/v2/dags/{dag}/dagRuns", body)["dag_run_id"]
            except urllib.error.HTTPError as error:
                if error.code == 409:
                    return run
                if error.code < 500:
                    raise
                time.sleep(1)

    def runs(self, dag: str) -> list[str]:
        """List the ids of all runs."""
        return [run["dag_run_id"] for run in self.call("GET", f"/api/v2/dags/{dag}/dagRuns")["dag_runs"]]

    def end_of(self, dag: str, run: str) -> str:
        """Wait for the end of a run; return its state."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}"
        return wait_for(lambda: (state := self.call("GET", path)["state"]) in OVER and state, RUN, f"run of {dag}")

    def states(self, dag: str, run: str) -> dict[str, str]:
        """Return the state of each task."""
        tasks = self.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in tasks}

    def xcom(self, dag: str, run: str, task: str) -> Any:
        """Return the XCom of a task."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value"
        return self.call("GET", path + "?deserialize=true")["value"]

    def events(self, dag: str) -> list[dict[str, Any]]:
        """List the asset events that runs of the DAG wrote."""
        return self.call("GET", f"/api/v2/assets/events?source_dag_id={dag}")["asset_events"]

    def links(self, dag: str, run: str, task: str) -> dict[str, str | None]:
        """List the buttons of a task."""
        return self.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/links")["extra_links"]

    def answer(self, dag: str, run: str, task: str, option: str) -> None:
        """Wait until a task asks for a decision, and answer."""
        asked = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}"
        states = {"awaiting_input", *OVER, "skipped", "upstream_failed"}
        state = wait_for(lambda: (state := self.call("GET", asked)["state"]) in states and state, RUN, "a question")
        assert state == "awaiting_input", f"{dag}.{task} asks nothing: {state}"
        # An answer within a second meets Airflow unready: its scheduler has not seen yet that the task's process ended,
        # and takes that end for the failure of the task that the answer has queued again.
        time.sleep(READING)
        self.call("PATCH", f"{asked}/-1/hitlDetails", {"chosen_options": [option], "params_input": {}})

    def question(self, dag: str, run: str, task: str) -> dict[str, Any]:
        """Return the question of a task."""
        return self.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/-1/hitlDetails")

    def page(self, url: str, logged_in: bool = True) -> str:
        """Load a page as a browser does."""
        headers = {"Cookie": f"_token={self.token}"} if logged_in else {}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(url, headers=headers), timeout=120) as response:
            return response.read().decode()

    def log(self, dag: str, run: str, task: str) -> str:
        """Return the log of the last try of a task: on a busy machine Airflow may lose the first before it starts."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}"
        number = self.call("GET", path)["try_number"]
        return json.dumps(self.call("GET", f"{path}/logs/{number}?full_content=true"))


def wait_for(attempt: Any, seconds: float, what: str) -> Any:
    """Retry until a call returns something; errors of HTTP and of the connection count as not yet."""
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


def processes_of(root: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return root.children(recursive=True)
    return []


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def standalone(folder: Path, settings: dict[str, str]) -> Iterator[Airflow]:
    """Run Airflow in a separate folder; end it by SIGTERM, or by its process ids if that is not enough.

    settings: environment of ours. No DAG runs by the clock, unless they say so. The files of DAGs do not change, so
    they are read again only after READ_AGAIN, in case the first reading took too long.
    """
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    environment |= {f"PSTSTREAM_{dag}_SCHEDULE": "none" for dag in TURNED_ON}
    environment |= {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": READ_AGAIN}
    environment |= {"JAVA_TOOL_OPTIONS": LEAN, **settings}
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
        wait_for(lambda: not any(map(_runs, started)), STOP, "the end of Airflow's processes")
    finally:
        started += processes_of(psutil.Process(process.pid)) if process.poll() is None else []
        for left in [process, *started]:
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                left.kill()
        process.wait()
