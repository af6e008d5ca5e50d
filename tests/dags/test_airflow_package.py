"""The package in an Airflow of others: two homes, any folder, entry points, connections, callbacks, priorities."""

import json
import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Home, new_home
from tests.dags.conftest import ROOT
from tests.dags.dag_runs import FinishedRun, bag_of
from tests.dags.landing_folder import PAIRS, fill_landing
from tests.docs.fences import blocks

pytestmark = [pytest.mark.airflow, pytest.mark.deep, pytest.mark.usefixtures("airflow_home")]

EXAMPLES = [block.text for block in blocks(ROOT / "docs" / "airflow.md") if block.is_python]
"""The DAG files of the documentation; their homes are in /data."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few workers, and no imbalance by noise."""
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("PSTSTREAM_SIGMA", "100000")


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The DAGs of the documentation, from files in a subfolder of a DAG folder, with homes in `tmp_path`."""
    subfolder = tmp_path / "dags" / "team" / "maps"
    subfolder.mkdir(parents=True)
    for number, text in enumerate(EXAMPLES):
        (subfolder / f"example_{number}.py").write_text(text.replace("/data", str(tmp_path)), "utf-8")
    dags: dict[str, Any] = bag_of(tmp_path / "dags", monkeypatch).dags
    return dags


def test_two_homes_run_side_by_side_and_a_consumer_starts_on_matches(
    tmp_path: Path, airflow_home: Path, examples: dict[str, Any]
) -> None:
    assert min(len(text.splitlines()) for text in EXAMPLES if "PSTStreamDag" in text) <= 15
    for city in ("malmo", "stockholm"):
        dag = examples[f"{city}_micro_batch"]
        assert (dag.schedule, dag.owner, set(dag.tags)) == ("*/5 * * * *", "maps", {"pststream", "cities"})
        assert dag.get_task("match").pool == examples[f"{city}_maintain"].get_task("maintain").pool == f"{city}_spark"
        [matches] = dag.get_task("publish").outlets
        assert (matches.name, matches.uri) == (f"{city}_matches", f"file://{tmp_path}/{city}/tables/matches")
    consumer = examples["count_new_matches"]
    assert consumer.schedule == examples["malmo_micro_batch"].get_task("publish").outlets

    # In an Airflow of its own: two homes, without Spark and without a connection to it.
    program = [sys.executable, str(ROOT / "tests" / "dags" / "two_homes.py"), str(tmp_path / "own")]
    (tmp_path / "own").mkdir()
    done = subprocess.run(
        [*program, str(airflow_home / "airflow.db")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    ran = json.loads(done.stdout.splitlines()[-1])
    states = dict.fromkeys(("match", "publish", "check_rejects"), "success")
    states |= dict.fromkeys(("deliver", "check_balance", "publish_answers"), "skipped")
    pairs = [list(pair) for pair in PAIRS]
    assert ran["homes"] == {
        "malmo": {"states": states, "pairs": pairs, "homes": ["malmo"]},
        "stockholm": {"states": states, "pairs": pairs, "homes": ["malmo", "stockholm"]},
    }
    assert ran["counts"] == [{"s1": 2, "s2": 1, "s3": 1}, {}]
    assert ran["runs_left"] == 0, "the command of the document deletes old runs"


def test_one_dag_matches_all_homes(tmp_path: Path, examples: dict[str, Any]) -> None:
    homes, landing = [new_home(tmp_path / city) for city in ("malmo", "stockholm")], fill_landing(tmp_path / "landing")
    for home in homes:
        for kind in ("requests", "objects"):
            home.run("ingest", kind, landing / kind)
    ran = FinishedRun(examples["match_all_homes"], {})
    assert ran.state == "success"
    for home in homes:
        assert [(object_id, subscription_id) for object_id, _, subscription_id in home.exported()] == PAIRS


def test_the_dags_of_the_project_are_read_from_a_subfolder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "team").mkdir()
    for file in (ROOT / "dags").glob("[!_]*.py"):
        (tmp_path / "team" / file.name).write_text(file.read_text("utf-8"), "utf-8")
    monkeypatch.setenv("PSTSTREAM_DAG_PREFIX", "")
    bag = bag_of(tmp_path, monkeypatch)
    assert set(bag.dags) == {file.stem for file in (ROOT / "dags").glob("[!_]*.py")}
    assert bag.dags["micro_batch"].get_task("match").pool == "pststream_spark"


def test_the_tasks_of_a_home_as_a_group_of_another_dag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_landing(tmp_path / "landing")
    text = f"""
from airflow.sdk import DAG, task
from pststream.airflow import PSTStreamTaskGroup

with DAG("nightly", schedule=None):
    @task
    def before():
        pass
    before() >> PSTStreamTaskGroup(home="{tmp_path}/home", landing="{tmp_path}/landing", prefix="night_")
"""
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "nightly.py").write_text(text, "utf-8")
    ran = FinishedRun(bag_of(tmp_path / "dags", monkeypatch).dags["nightly"], {})
    skipped = dict.fromkeys(
        (f"pststream.{task}" for task in ("deliver", "check_balance", "publish_answers")), "skipped"
    )
    done = dict.fromkeys(("before", "pststream.match", "pststream.publish", "pststream.check_rejects"), "success")
    assert ran.states == done | skipped
    assert [(one, other) for one, _, other in Home(tmp_path / "home").exported()] == PAIRS


def test_operators_run_one_command_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landing, home = fill_landing(tmp_path / "landing"), new_home(tmp_path / "home")
    text = f"""
from airflow.sdk import DAG, chain
from pststream.airflow import BalanceOperator, IngestOperator, MatchOperator, PlanOperator

with DAG("by_hand", schedule=None, default_args={{"home": "{home.path}", "prefix": "hand_"}}):
    chain(
        IngestOperator(task_id="requests", kind="requests", paths=["{landing}/requests"]),
        IngestOperator(task_id="objects", kind="objects", paths=["{landing}/objects"]),
        PlanOperator(task_id="plan", planner="grid", workers=3),
        MatchOperator(task_id="match", max_objects=3),
        BalanceOperator(task_id="balance", apply=False),
    )
"""
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "by_hand.py").write_text(text, "utf-8")
    ran = FinishedRun(bag_of(tmp_path / "dags", monkeypatch).dags["by_hand"], {})
    assert ran.state == "success"
    assert (ran.xcom("objects")["accepted"], ran.xcom("plan")["planner"]) == (5, "grid")
    assert [batch["objects"] for batch in ran.xcom("match")["batches"]] == [3, 2]
    assert ran.xcom("balance")["plan_version_after"] == 1


def test_callbacks_follow_the_alert() -> None:
    from pststream.airflow import DagOptions, make_dag

    def page(context: Any) -> None:
        raise NotImplementedError

    for on_failure in (page, [page]):
        dag = make_dag("maintain", on_failure=on_failure)
        assert [call.__name__ for call in dag.get_task("maintain").on_failure_callback] == ["report_failure", "page"]
    assert [call.__name__ for call in DagOptions().task_defaults(1)["on_failure_callback"]] == ["report_failure"]


def test_an_approval_has_its_users_and_notifiers() -> None:
    from airflow.sdk import BaseNotifier

    from pststream.airflow import make_dag

    class Bell(BaseNotifier):
        def notify(self, context: Any) -> None:
            raise NotImplementedError

    ann, bell = {"id": "7", "name": "ann"}, Bell()
    for name in ("adjust_load", "repartition"):
        approve = make_dag(name, assigned_users=[ann], notifiers=[bell]).get_task("approve")
        assert (approve.assigned_users, approve.notifiers) == ([ann], [bell])
        assert make_dag(name).get_task("approve").assigned_users is None


def test_a_micro_batch_is_before_plan_changes_and_these_before_maintenance() -> None:
    from pststream.airflow import make_dags

    def weight(name: str, task: str) -> tuple[int, str]:
        one = dags[f"pststream_{name}"].get_task(task)
        return one.priority_weight, str(one.weight_rule)

    dags = make_dags()
    weights = [weight("micro_batch", "match"), weight("adjust_load", "plan"), weight("maintain", "maintain")]
    assert [number for number, _ in weights] == sorted({number for number, _ in weights}, reverse=True)
    assert {rule for _, rule in weights} == {"absolute"}
    schedules = [dag.schedule for dag in dags.values()]
    assert "@daily" not in schedules and "0 0 * * *" not in schedules


def test_a_connection_names_home_and_landing_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    from jinja2 import Environment, StrictUndefined

    from pststream.airflow import DagOptions
    from pststream.airflow.operators import PSTStreamHook
    from pststream.airflow.runners.allowed_places import admit

    monkeypatch.setenv("AIRFLOW_CONN_CITY", json.dumps({"conn_type": "pststream", "extra": {"home": "s3://b/city"}}))
    hook, options = PSTStreamHook("city"), DagOptions(conn_id="city")
    connections = {"city": hook.get_connection("city")}

    def rendered(templates: list[str], **form: str) -> list[str]:
        jinja = Environment(undefined=StrictUndefined)
        return admit([jinja.from_string(text).render(params=form, conn=connections) for text in templates]).arguments

    assert rendered(options.home_arguments) == [f"--home={hook.home}"] == ["--home=s3://b/city"]
    both = [*options.home_arguments, *options.landing_arguments]
    assert rendered(both) == ["--home=s3://b/city", f"--landing={hook.landing}"]
    assert hook.landing == "s3://b/city/landing"
    monkeypatch.setenv("AIRFLOW__PSTSTREAM__ALLOWED_HOMES", '["/other"]')
    assert rendered(options.home_arguments, home="/other") == ["--home=/other"]


def test_keys_of_an_aws_connection_are_variables_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream.airflow.runners.allowed_places import RunPlace
    from pststream.airflow.runners.job_outcome import JobRefused
    from pststream.airflow.runners.run_environment import aws_environment

    own, other = (RunPlace([], home, is_own) for home, is_own in (("s3://b/own", True), ("s3://b/other", False)))

    def connect(**extra: Any) -> None:
        keys = {"conn_type": "aws", "login": "key", "password": "secret-of-aws", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_CLOUD", json.dumps(keys))

    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setenv("AWS_REGION", "elsewhere")
    connect(region_name="eu-north-1", endpoint_url="http://127.0.0.1:1")
    with aws_environment("cloud", own):
        wanted = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret-of-aws", "AWS_REGION": "eu-north-1"}
        assert wanted.items() <= os.environ.items() and os.environ["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert "AWS_ACCESS_KEY_ID" not in os.environ and os.environ["AWS_REGION"] == "elsewhere"
    with aws_environment("cloud", other):
        assert "AWS_ACCESS_KEY_ID" not in os.environ, "keys belong to the home of the DAG"
    connect(homes=["s3://b/other"])
    with aws_environment("cloud", other):
        assert os.environ["AWS_ACCESS_KEY_ID"] == "key"
    with aws_environment("cloud", own):
        assert "AWS_ACCESS_KEY_ID" not in os.environ, "and if the connection names homes, to these alone"
    connect(homes=[7])
    with pytest.raises(JobRefused, match="homes: is not a list"), aws_environment("cloud", own):
        pass
    connect()
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of other keys")
    with aws_environment("cloud", own):
        assert "AWS_SESSION_TOKEN" not in os.environ, "a token belongs to its keys"
    connect(aws_session_token="own")
    with aws_environment("cloud", own):
        assert os.environ["AWS_SESSION_TOKEN"] == "own"
    assert os.environ["AWS_SESSION_TOKEN"] == "of other keys"
    connect(role_arn="arn:aws:iam::1:role/r")
    with pytest.raises(JobRefused, match="not role_arn"), aws_environment("cloud", own):
        pass
    with pytest.raises(JobRefused, match="no connection 'none'"), aws_environment("none", own):
        pass


def test_entry_points_are_there_and_airflow_accepts_the_provider() -> None:
    from airflow.providers_manager import _create_provider_info_schema_validator

    points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    loaded = {}
    for group in ("apache_airflow_provider", "airflow.plugins"):
        [point] = points[group].values()
        module, _, name = point.partition(":")
        loaded[group] = getattr(import_module(module), name)
    info = loaded["apache_airflow_provider"]()
    _create_provider_info_schema_validator().validate(info)
    assert {connection["connection-type"] for connection in info["connection-types"]} == {"pststream", "pststream_sink"}
    for connection in info["connection-types"]:
        module, _, name = connection["hook-class-name"].rpartition(".")
        assert getattr(import_module(module), name).conn_type == connection["connection-type"]
    classes = [*info["extra-links"], *(f"{module}.PSTStreamHook" for module in info["hooks"][0]["python-modules"])]
    classes += [f"{module}.OutcomeTrigger" for module in info["triggers"][0]["python-modules"]]
    for path in classes:
        module, _, name = path.rpartition(".")
        assert getattr(import_module(module), name)
    assert loaded["airflow.plugins"].name == "pststream_pages"


def test_the_package_is_imported_without_airflow() -> None:
    code = "import sys; sys.modules['airflow'] = None; import pststream.airflow; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
