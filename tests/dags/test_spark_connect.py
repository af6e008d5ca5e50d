"""With a connection of type `spark_connect` the steps of all jobs run on its server, in one set of Python workers."""

import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pststream.base import names
from pststream.engine import worker_daemon
from pststream.engine.spark_engine import SparkEngine
from pststream.engine.spark_server import SparkServer
from pststream.engine.spark_session import EngineSession, shared_conf
from pststream.reports.pages.overview_page import read_overview, render_overview
from pststream.settings import Settings
from tests.commands import Home
from tests.dags.dag_runs import FinishedRun
from tests.dags.java_recorder import JavaRecorder
from tests.dags.landing_folder import PAIRS, fill_landing
from tests.lean_jvm import LEAN
from tests.moto_process import free_port

pytestmark = [pytest.mark.airflow, pytest.mark.deep, pytest.mark.spark, pytest.mark.timeout(1800)]

RUNS, CORES = 20, 2
IDLE_SECONDS = 50
"""Less than the minute after which Spark ends idle workers."""


class Server:
    """A server that many processes use, with its pages."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        conf = shared_conf(Settings(spark_master=f"local[{CORES}]", spark_driver_memory="512m"))
        self._server = SparkServer(conf | {"spark.ui.port": str(port)}, folder)
        self.url, self.stop = self._server.url, self._server.stop
        self._pages = f"http://127.0.0.1:{port}/api/v1/applications"

    def ask(self, what: str) -> list[dict[str, Any]]:
        """Ask the REST API of Spark's pages about the application."""
        [application] = self._get("")
        return self._get(f"/{application['id']}/{what}")

    def _get(self, path: str) -> list[dict[str, Any]]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self._pages + path, timeout=60) as answer:
            return json.load(answer)

    def workers(self) -> dict[int, set[int]]:
        """Return the ids of the Python workers by that of their daemon."""
        python = {}
        for one in psutil.Process(self._server._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if worker_daemon.__name__ in one.cmdline():
                    python[one.pid] = one.ppid()
        daemons = [pid for pid, parent in python.items() if parent not in python]
        return {daemon: {pid for pid, parent in python.items() if parent == daemon} for daemon in daemons}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", LEAN)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        running = Server(tmp_path_factory.mktemp("spark"))
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(autouse=True)
def connection(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JavaRecorder:
    """The connection to the server, few workers, and a `java` that does not work."""
    host, token = server.url.removeprefix("sc://").split("/;token=")
    host, _, port = host.partition(":")
    values = {"conn_type": "spark_connect", "host": host, "port": int(port), "password": token}
    monkeypatch.setenv(f"AIRFLOW_CONN_{names.SPARK_CONNECTION.upper()}", json.dumps(values))
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("PSTSTREAM_SIGMA", "100000")
    monkeypatch.delenv("PSTSTREAM_ENGINE", raising=False)
    return JavaRecorder(tmp_path / "java", monkeypatch, works=False)


def test_a_dag_runs_on_the_server_and_an_idle_or_local_run_does_not(
    dagbag: Any, server: Server, connection: JavaRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag, home = dagbag.dags["pststream_micro_batch"], Home(tmp_path / "home")
    form = {"home": str(home.path), "landing": str(fill_landing(tmp_path / "landing"))}
    before = len(server.ask("jobs"))
    ran = FinishedRun(dag, form)
    assert ran.states["match"] == "success"
    assert [(object_id, subscription_id) for object_id, _, subscription_id in home.exported()] == PAIRS
    after = server.ask("jobs")
    assert len(after) > before and {job["status"] for job in after} == {"SUCCEEDED"}
    assert {stage["schedulingPool"] for stage in server.ask("stages")} == {"default"}
    assert [batch["engine"] for batch in home.run("status")["batches"]] == [f"Spark local[{CORES}]"]
    assert f"<td>Spark local[{CORES}]</td>" in render_overview(read_overview(str(home.path)))

    assert FinishedRun(dag, form).states["match"] == "success"
    monkeypatch.setenv("PSTSTREAM_ENGINE", "local")
    fill_landing(tmp_path / "more")
    other = {"home": str(tmp_path / "other"), "landing": str(tmp_path / "more")}
    assert FinishedRun(dag, other).states["match"] == "success"
    assert len(server.ask("jobs")) == len(after)
    assert connection.calls == []


def test_all_jobs_of_a_home_run_in_the_same_python_workers(server: Server, tmp_path: Path) -> None:
    from pststream.airflow.runners.job_process import JobProcess, environment

    home, objects = tmp_path / "home", fill_landing(tmp_path / "landing") / "objects"
    rows = (objects / "posts.csv").read_text("utf-8")
    daemons, workers, tasks, ends = [], [], [], []
    for number in range(RUNS):
        copy = objects / f"more{number}.csv"
        copy.write_text(rows.replace("\no", f"\nn{number}-").replace("\npole", f"\np{number}-"), "utf-8")
        job = JobProcess("micro_batch", environment() | {"SPARK_REMOTE": server.url})
        arguments = [f"--home={home}", f"--landing={tmp_path / 'landing'}"]
        outcome, error = job.run(arguments, tmp_path / f"result{number}.json")
        assert outcome is not None and outcome["result"]["match"]["objects"], outcome or error
        ends.append(time.monotonic())
        now = server.workers()
        daemons.append(set(now))
        workers.append(set().union(*now.values()))
        tasks.append(sum(job["numCompletedTasks"] for job in server.ask("jobs")))
    assert sorted(tasks) == tasks and len(set(tasks)) == RUNS
    assert len(daemons[0]) == 1 and daemons == [daemons[0]] * RUNS
    assert all(0 < len(one) <= CORES for one in workers)
    soon = [number for number in range(1, RUNS) if ends[number] - ends[number - 1] < IDLE_SECONDS]
    assert soon and all(workers[number] & workers[number - 1] for number in soon), "a job runs in the workers before it"


def test_a_small_job_does_not_wait_for_the_tasks_of_a_large_one(server: Server) -> None:
    engine = SparkEngine(EngineSession(server.url, True, None))
    engine.run_tasks([0.0], time.sleep)
    large = threading.Thread(target=engine.run_tasks, args=([0.5] * 40, time.sleep))
    large.start()
    time.sleep(2)
    SparkEngine(EngineSession(server.url, True, None)).run_tasks([0.0, 0.0], time.sleep)
    assert large.is_alive(), "ten seconds of tasks"
    large.join()
