"""The arguments and variables that each kind of Spark master gets, without a cluster: spark-submit is not started."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pststream.base import names
from tests.dags.conftest import ROOT

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]

PROGRAM = str(ROOT / "jobs" / "match.py")
OUTCOME = "outcomes/d/r/t-1.json"


class Store(dict[str, Any]):
    """Airflow's store of a task."""

    set = dict.__setitem__

    def delete(self, key: str) -> None:
        self.pop(key, None)


class Submission:
    """Submits a job with Airflow's operator and hook, in place of spark-submit: `words` are its command.

    A driver on a cluster then writes its outcome to the home.
    """

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from airflow.providers.apache.spark.hooks import spark_submit
        from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

        self.words: list[str] = []
        self.variables: dict[str, str] = {}
        self.store = Store()
        self._home, self._patch = home, monkeypatch
        submission = self

        def submit(hook: Any, application: str) -> str:
            submission.words = hook._build_spark_submit_command(application)
            submission.variables = os.environ | (hook._env or {})
            hook._kubernetes_driver_pod = hook._yarn_application_id = "id"
            if "--deploy-mode" in submission.words:  # so soon that nothing has to wait
                (home / OUTCOME).parent.mkdir(parents=True)
                (home / OUTCOME).write_text('{"exit_code": 0, "result": 7}', "utf-8")
            return "id"

        monkeypatch.setattr(spark_submit.SparkSubmitHook, "submit", submit)
        monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
        monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)

    def run(
        self, connection: dict[str, Any], *words: str, **operator: Any
    ) -> tuple[dict[str, Any] | None, Exception | None]:
        """Submit the job `match`; return its outcome."""
        from pststream.airflow.runners.spark_job import SparkJob, _master

        self._patch.setenv(f"AIRFLOW_CONN_{names.SPARK_CONNECTION.upper()}", json.dumps(connection))
        job = SparkJob(task_id="t", job="match", arguments=[], **operator)
        ti = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1, stats_tags={})
        context: Any = {"ti": ti, "task_state_store": self.store}
        arguments = [*words, f"--home={self._home}"]
        return job._submit(context, arguments, Path("/result"), _master(names.SPARK_CONNECTION))

    def options(self, name: str) -> list[str]:
        """Return the values of an option of spark-submit."""
        return [value for option, value in zip(self.words, self.words[1:]) if option == name]


@pytest.fixture
def submission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submission:
    """A submission with one jar of ours and 2 GB for the driver."""
    from pststream.airflow.runners import spark_job

    (tmp_path / "delta.jar").touch()
    monkeypatch.setattr(spark_job, "JARS", tmp_path)
    monkeypatch.delenv("PSTSTREAM_SPARK_DRIVER_MEMORY", raising=False)
    return Submission(tmp_path / "home", monkeypatch)


def spark(host: str, **extra: Any) -> dict[str, Any]:
    return {"conn_type": "spark", "host": host, "extra": extra}


@pytest.mark.parametrize("host", ["spark://h:7077", "yarn", "k8s://https://h:6443"])
def test_a_driver_next_to_the_task(submission: Submission, tmp_path: Path, host: str) -> None:
    operator = {"jars": "/more.jar", "driver_memory": "5g", "executor_memory": "3g", "conf": {"spark.x": "y"}}
    outcome, error = submission.run(spark(host), env_vars={"OWN": "1"}, **operator)
    assert (outcome, error) == (None, None)
    assert submission.options("--master") == [host] and not submission.options("--deploy-mode")
    assert submission.options("--jars") == [f"{tmp_path}/delta.jar,/more.jar"]
    assert submission.options("--driver-memory") == ["5g"] and submission.options("--executor-memory") == ["3g"]
    conf = submission.options("--conf")
    assert {"spark.log.level=WARN", "spark.x=y"} <= set(conf)
    assert not [one for one in conf if one.startswith(("spark.jars", "spark.driver.memory"))]
    assert submission.words[-3:] == [PROGRAM, "--result=/result", f"--home={tmp_path}/home"]
    assert {"PSTSTREAM_SUBMITTERS", "PYSPARK_PYTHON"} <= submission.variables.keys()
    assert "PSTSTREAM_SUBMITTERS" not in os.environ and submission.store == {}


@pytest.mark.parametrize(
    ("host", "extra", "application", "jars"),
    [
        ("spark://h:7077", {}, "{0}/delta.jar", "{0}/delta.jar"),
        ("yarn", {"yarn_resourcemanager_webapp_address": "rm:8088"}, PROGRAM, "{0}/delta.jar"),
        ("k8s://https://h:6443", {"namespace": "n"}, f"local://{PROGRAM}", "local://{0}/delta.jar"),
    ],
)
def test_a_driver_on_the_cluster(
    submission: Submission, tmp_path: Path, host: str, extra: dict[str, str], application: str, jars: str
) -> None:
    outcome, error = submission.run(spark(host, **{"deploy-mode": "cluster"}, **extra))
    assert (outcome, error) == ({"exit_code": 0, "result": 7}, None)
    assert submission.options("--deploy-mode") == ["cluster"]
    assert submission.options("--jars") == [jars.format(tmp_path)]
    home = f"{tmp_path}/home"
    assert submission.words[-3:] == [f"--result={home}/{OUTCOME}", f"--home={home}", f"--home={home}"]
    assert application.format(tmp_path) in submission.words
    assert "PSTSTREAM_SUBMITTERS" not in submission.variables, "a driver does not end with the task"
    conf = submission.options("--conf")
    assert ("spark.yarn.submit.waitAppCompletion=false" in conf) == (host == "yarn")
    assert ("spark.kubernetes.submission.waitAppCompletion=false" in conf) == host.startswith("k8s")
    if host.startswith("spark"):
        assert submission.options("--class") == ["org.apache.spark.deploy.PythonRunner"]
        assert submission.words[-5:-3] == [PROGRAM, str(ROOT)]
    # The id of the driver is kept until it has ended; the outcome is that of the try which submitted it.
    assert submission.store == {"pststream_outcome": OUTCOME}


@pytest.mark.parametrize(
    ("host", "extra", "driver"),
    [
        ("yarn", {"yarn_resourcemanager_webapp_address": "rm:8088"}, "spark.yarn.appMasterEnv"),
        ("k8s://https://h:6443", {"namespace": "n"}, "spark.kubernetes.driverEnv"),
    ],
)
def test_a_driver_on_the_cluster_has_landing_folder_settings_and_store(
    submission: Submission, monkeypatch: pytest.MonkeyPatch, host: str, extra: dict[str, str], driver: str
) -> None:
    passed = {"PSTSTREAM_MAX_OBJECTS": "7", "AWS_REGION": "eu-north-1", "AWS_ENDPOINT_URL_S3": "https://store:7070"}
    others = {"PSTSTREAM_CACHE_DIR": "/mine", "PSTSTREAM_SINK_ALERTS_SECRET": "hush", "AWS_SECRET_ACCESS_KEY": "hush"}
    for name, value in (passed | others | {"PSTSTREAM_LANDING": "landing"}).items():
        monkeypatch.setenv(name, value)
    submission.run(spark(host, **{"deploy-mode": "cluster"}, **extra), "--landing=", env_vars={"OWN": "1"})
    assert f"--landing={Path.cwd()}/landing" in submission.words and "--landing=" not in submission.words
    conf = set(submission.options("--conf"))
    assert {f"{driver}.{name}={value}" for name, value in (passed | {"OWN": "1"}).items()} <= conf
    assert {f"spark.executorEnv.{name}={value}" for name, value in passed.items()} <= conf
    assert not [word for word in submission.words if "hush" in word or "/mine" in word]


@pytest.mark.parametrize(
    ("host", "extra", "operator", "reason"),
    [
        ("spark://h:7077", {}, {"env_vars": {"A": "1"}}, "passes no env_vars"),
        ("yarn", {}, {}, "yarn_resourcemanager_webapp_address"),
        ("k8s://https://h:6443", {}, {}, "namespace"),
    ],
)
def test_an_incomplete_connection_is_refused(
    submission: Submission, host: str, extra: dict[str, str], operator: dict[str, Any], reason: str
) -> None:
    from pststream.airflow.runners.job_outcome import JobRefused

    with pytest.raises(JobRefused, match=reason):
        submission.run(spark(host, **{"deploy-mode": "cluster"}, **extra), **operator)
    assert submission.words == []


def test_kubernetes_needs_a_provider(submission: Submission, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers.apache.spark.hooks import spark_submit

    from pststream.airflow.runners.job_outcome import JobRefused

    monkeypatch.delattr(spark_submit, "kube_client")
    with pytest.raises(JobRefused, match="apache-airflow-providers-cncf-kubernetes"):
        submission.run(spark("k8s://https://h:6443", **{"deploy-mode": "cluster", "namespace": "n"}))


def test_parameters_of_the_operator_reach_a_spark_that_the_job_starts() -> None:
    from pststream.airflow.runners.spark_job import SparkJob, properties_of

    job = SparkJob(task_id="t", job="match", arguments=[], packages="a:b:1", executor_memory="3g", num_executors=0)
    assert properties_of(job) == {
        "spark.jars.packages": "a:b:1",
        "spark.executor.memory": "3g",
        "spark.executor.instances": "0",
    }


@pytest.mark.parametrize("transport", [None, {"type": "console"}])
def test_options_of_openlineage_reach_the_job(
    monkeypatch: pytest.MonkeyPatch, transport: dict[str, str] | None
) -> None:
    """The functions are those of Airflow's OpenLineage provider, which is not among the locked packages."""
    from pststream.airflow.runners import lineage
    from pststream.airflow.runners.spark_job import SparkJob

    for name in ("parent_job", "transport"):
        function = f"inject_{name}_information_into_spark_properties"
        monkeypatch.setattr(lineage, function, _add(f"spark.openlineage.{name}"))
    provider = SimpleNamespace(is_disabled=lambda: transport is None, transport=lambda: transport or {})
    monkeypatch.setattr(lineage, "_openlineage_conf", lambda: provider)
    options = {"openlineage_inject_parent_job_info": True, "openlineage_inject_transport_info": True}
    job = SparkJob(task_id="t", job="match", arguments=[], **options)
    assert lineage.spark_properties({"x": "y"}, job, {}).keys() == {
        "x",
        "spark.openlineage.parent_job",
        "spark.openlineage.transport",
    }
    wanted = {"OPENLINEAGE__TRANSPORT": json.dumps(transport)} if transport else {}
    assert lineage.transport_variable(job) == wanted
    without = SparkJob(task_id="t", job="match", arguments=[])
    assert lineage.transport_variable(without) == {} and lineage.spark_properties({}, without, {}) == {}


def _add(name: str) -> Callable[[dict[str, str], Any], dict[str, str]]:
    return lambda properties, *context: {**properties, name: "1"}
