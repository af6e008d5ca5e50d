"""With the engine `spark` each job of a DAG run is submitted to Spark, and XCom, errors and retries are the same."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands import Home
from tests.dags.dag_runs import FinishedRun, killed_once
from tests.dags.java_recorder import JavaRecorder
from tests.dags.landing_folder import PAIRS, fill_landing
from tests.lean_jvm import LEAN

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.deep]

SUBMIT = "org.apache.spark.deploy.SparkSubmit"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few workers, a lean JVM, no imbalance by noise, and the engine that the home names."""
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("PSTSTREAM_SIGMA", "100000")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", LEAN)
    monkeypatch.delenv("PSTSTREAM_ENGINE", raising=False)


def test_submitted_runs_end_as_runs_without_spark_do(
    dagbag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = JavaRecorder(tmp_path / "java", monkeypatch, works=True)
    landing = str(fill_landing(tmp_path / "landing"))
    local, spark = Home(tmp_path / "local"), Home(tmp_path / "spark")
    spark.run("init")
    (spark.path / "pststream.toml").write_text('engine = "spark"\n', "utf-8")

    # A try that is killed, and one that is not.
    here = FinishedRun(dagbag.dags["pststream_micro_batch"], {"home": str(local.path), "landing": landing})
    assert java.calls == []
    monkeypatch.setenv("PSTSTREAM_CRASH_AT", "match.done")
    form = {"home": str(spark.path), "landing": landing}
    submitted = killed_once(dagbag.dags["pststream_micro_batch"], form, monkeypatch)
    assert submissions(java) == 2 and submitted.tries["match"] == 2
    measured = dict.fromkeys(("seconds", "home", "balance", "table", "answered"))
    assert submitted.xcom("match") | measured == here.xcom("match") | measured
    assert submitted.states == here.states
    assert submitted.events() == [submitted.xcom("match")]
    assert spark.exported() == local.exported()
    assert [(object_id, subscription_id) for object_id, _, subscription_id in spark.exported()] == PAIRS

    # A refusal is not retried.
    refused = FinishedRun(dagbag.dags["pststream_micro_batch"], form | {"landing": str(tmp_path / "nowhere")})
    assert (refused.states["match"], refused.tries["match"]) == ("failed", 1)
    assert submissions(java) == 3

    # A proposal is shown and applied.
    where = {"home": str(spark.path)}
    with monkeypatch.context() as patch:
        patch.setenv("PSTSTREAM_ENGINE", "local")
        before = spark.run("plan", "--planner", "frequency", "--workers", "2")["plan_version"]
    changed = FinishedRun(dagbag.dags["pststream_repartition"], where | {"planner": "kd_tree"})
    steps = dict.fromkeys(("check", "plan", "show", "approve", "apply", "publish"), "success")
    assert changed.states == steps | {"replay": "skipped"}
    assert changed.xcom("apply")["plan_version"] == before + 1
    assert submissions(java) == 5
    assert spark.exported() == local.exported()


def submissions(java: JavaRecorder) -> int:
    """Count the JVMs that spark-submit started; it starts a short one before, which makes the command."""
    return sum(SUBMIT in call and "launcher.Main" not in call for call in java.calls)
