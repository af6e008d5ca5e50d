"""Idle and small DAG runs start no JVM, a large step starts it in the job, a cluster is given no idle run."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from tests.commands import Home
from tests.dags.dag_runs import FinishedRun
from tests.dags.java_recorder import JavaRecorder
from tests.dags.landing_folder import ACCEPTED, PAIRS, REJECTED, fill_landing
from tests.lean_jvm import LEAN

pytestmark = [pytest.mark.airflow, pytest.mark.deep]

RESULTS = "pststream.airflow.runners.job_log"
RAN = ("micro_batch", "check_tables", "maintain", "term_statistics", "status", "check_balance", "repartition")
JOBS = tuple(f"{job}: " for job in RAN)
LATER = ("publish", "publish_answers", "deliver", "check_balance", "check_rejects")
IDLE = {"match": "success"} | dict.fromkeys(LATER, "skipped")
CLUSTER = "spark://127.0.0.1:1"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few workers, no imbalance by noise, a lean JVM, and the engine that the home names."""
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("PSTSTREAM_SIGMA", "100000")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", LEAN)
    monkeypatch.delenv("PSTSTREAM_ENGINE", raising=False)


@pytest.fixture
def form(tmp_path: Path) -> dict[str, str]:
    """A home to be made, and a landing folder with files."""
    return {"home": str(tmp_path / "home"), "landing": str(fill_landing(tmp_path / "landing"))}


def connect(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    connection = {"conn_type": "spark", "host": master}
    monkeypatch.setenv(f"AIRFLOW_CONN_{names.SPARK_CONNECTION.upper()}", json.dumps(connection))


def test_small_and_idle_runs_of_all_dags_start_no_jvm(
    dagbag: Any,
    form: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, RESULTS)
    java = JavaRecorder(tmp_path / "java", monkeypatch, works=False)
    ran = FinishedRun(dagbag.dags["pststream_micro_batch"], form)
    assert ran.states == IDLE | {"publish": "success", "check_rejects": "success"}, "there is no sink"
    summary = ran.xcom("match")
    assert (summary["accepted"], summary["rejected"], summary["matches"]) == (ACCEPTED, REJECTED, len(PAIRS))
    idle = FinishedRun(dagbag.dags["pststream_micro_batch"], form)
    assert (idle.state, idle.states) == ("success", IDLE)
    figures = ("accepted", "rejected", "files", "batches", "matches", "balance", "batch_id", "plan_version")
    assert [idle.xcom("match")[name] for name in figures] == [0, 0, 0, 0, 0, None, None, None]
    assert idle.xcom("match")["table_version"] == summary["table_version"]
    assert idle.xcom("match").keys() == summary.keys()
    assert idle.events() == [] and ran.events() == [summary]
    where = {"home": form["home"]}
    for name in ("check_tables", "maintain", "term_statistics", "health"):
        assert FinishedRun(dagbag.dags[f"pststream_{name}"], where).state == "success", name
    repartitioned = FinishedRun(dagbag.dags["pststream_repartition"], where | {"planner": "grid", "workers": 3})
    steps = dict.fromkeys(("check", "plan", "show", "approve", "apply", "publish"), "success")
    assert repartitioned.states == steps | {"replay": "skipped"}
    assert java.calls == []
    _each_job_logs_its_result_in_one_line(caplog.records)


def _each_job_logs_its_result_in_one_line(records: list[logging.LogRecord]) -> None:
    messages = [(record.levelname, record.message) for record in records if record.name == RESULTS]
    lines = [line for line in messages if line[1].startswith(JOBS)]
    assert [message.partition(":")[0] for _, message in lines] == [
        "micro_batch", "micro_batch", "check_tables", "maintain", "term_statistics", "status", "check_balance",
        "check_balance", "repartition",
        "repartition",
    ]  # fmt: skip
    level, text = lines[0]
    assert level == "WARNING" and text.startswith(
        "micro_batch: 2 files ingested, 8 rows accepted, 1 rejected (1 out_of_range); 1 batch: 5 objects, 4 matches in "
    )
    assert lines[1] == ("INFO", "micro_batch: nothing is new")
    assert {level for level, _ in lines[1:]} == {"INFO"}
    for _, message in messages:
        assert "\n" not in message and not message.startswith("{") and not message.endswith(": done"), message


@pytest.mark.spark
def test_a_large_step_starts_spark_as_if_it_were_submitted(
    dagbag: Any, form: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = JavaRecorder(tmp_path / "java", monkeypatch, works=True)
    monkeypatch.setenv("PSTSTREAM_SPARK_DRIVER_MEMORY", "700m")
    first = tmp_path / "landing" / "objects" / "posts.csv"
    rows, blank_lines = first.read_text("utf-8"), "\n" * (16 << 20)
    for number in range(9):  # more bytes than `auto` reads in threads
        copy = first.with_name(f"more{number}.csv")
        copy.write_text(rows.replace("\no", f"\nn{number}").replace("\npole", f"\np{number}") + blank_lines, "utf-8")
    dag = dagbag.dags["pststream_micro_batch"]
    monkeypatch.setattr(dag.get_task("match"), "conf", {"spark.test.conf": "arrived"})
    ran = FinishedRun(dag, form)
    assert ran.state == "success" and ran.xcom("match")["files"] == 11
    assert len(Home(Path(form["home"])).exported()) == 10 * len(PAIRS)
    [driver] = [call for call in java.calls if "-Xmx700m" in call]
    for words in ("spark.test.conf=arrived", "spark.master=local[2]", "pststream-micro_batch", "delta-spark"):
        assert words in driver, words


def test_a_cluster_is_given_no_idle_run(
    dagbag: Any, form: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = JavaRecorder(tmp_path / "java", monkeypatch, works=False)
    dag = dagbag.dags["pststream_micro_batch"]
    monkeypatch.setattr(dag.get_task("match"), "retries", 0)
    connect(monkeypatch, CLUSTER)
    submitted = FinishedRun(dag, form)
    assert submitted.states["match"] == "failed", "this java cannot submit"
    [call] = java.calls
    assert f"--master {CLUSTER}" in call and "micro_batch.py" in call and "--only-if-idle" not in call
    assert not Path(form["home"]).exists(), "asking for work changes nothing"

    connect(monkeypatch, "local[2]")
    assert FinishedRun(dag, form).states["match"] == "success"
    connect(monkeypatch, CLUSTER)
    assert FinishedRun(dag, form).states == IDLE
    assert len(java.calls) == 1
    shutil.copy(tmp_path / "landing" / "objects" / "posts.csv", tmp_path / "landing" / "objects" / "again.csv")
    assert FinishedRun(dag, form).states == IDLE, "known content is no work"
    with (tmp_path / "landing" / "objects" / "again.csv").open("a") as file:
        file.write("o6,2026-03-01T12:06:00Z,0.5,0.5,free coffee\n")
    assert FinishedRun(dag, form).states["match"] == "failed"
    assert len(java.calls) == 2


def test_the_engine_spark_submits_even_an_idle_run(
    dagbag: Any, form: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = dagbag.dags["pststream_micro_batch"]
    monkeypatch.setattr(dag.get_task("match"), "retries", 0)
    assert FinishedRun(dag, form).states["match"] == "success"
    java = JavaRecorder(tmp_path / "java", monkeypatch, works=False)
    monkeypatch.setenv("PSTSTREAM_ENGINE", "spark")
    assert FinishedRun(dag, form).states["match"] == "failed"
    assert len(java.calls) == 1
