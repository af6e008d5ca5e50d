"""The DAG files load quickly and without errors, and their forms refuse invalid values."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from tests.dags.conftest import DAGS, ROOT

pytestmark = pytest.mark.airflow

HEAVY = ("pyspark", "delta", "deltalake", "numba", "numpy", "pandas", "pyarrow", "great_expectations")
PARSE = """
import importlib, json, os, sys, time
sys.path.insert(0, {folder!r})
import airflow.sdk, airflow.providers.apache.spark.operators.spark_submit
for module in {modules!r}:
    if os.fork() == 0:
        began = time.perf_counter()
        importlib.import_module(module)
        heavy = [name for name in {heavy!r} if name in sys.modules]
        print(json.dumps([module, heavy, time.perf_counter() - began]), flush=True)
        os._exit(0)
    os.wait()
"""
SECONDS = 30.0


NAMES = (
    *("adjust_load", "check_tables", "health", "maintain", "micro_batch", "pairs", "quarantine", "questions"),
    *("repartition", "term_statistics"),
)


@pytest.mark.deep
def test_a_dag_file_loads_nothing_heavy(airflow_home: Path) -> None:
    """Each is read by a process that has loaded Airflow only."""
    code = PARSE.format(folder=str(DAGS), modules=NAMES, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=400)
    read = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert [module for module, _, _ in read] == list(NAMES), done.stderr
    for module, heavy, seconds in read:
        print(f"{module}: {seconds:.3f} s on top of Airflow itself")
        assert heavy == [], module
        assert seconds < SECONDS


def test_airflow_reads_the_folder_without_errors(dagbag: Any) -> None:
    assert dagbag.import_errors == {}
    assert set(dagbag.dags) == {f"pststream_{name}" for name in NAMES}
    for stat in dagbag.dagbag_stats:
        print(f"{stat.file}: {stat.duration.total_seconds():.3f} s")


def test_one_run_at_a_time_and_no_catchup(dagbag: Any) -> None:
    for dag in dagbag.dags.values():
        assert dag.max_active_runs == 1
        assert dag.catchup is False
    assert dagbag.dags["pststream_micro_batch"].schedule == "* * * * *"
    assert dagbag.dags["pststream_repartition"].schedule == "30 3 * * *"
    assert dagbag.dags["pststream_maintain"].schedule == "10 2 * * *"
    assert dagbag.dags["pststream_check_tables"].schedule == "50 4 * * *"
    assert dagbag.dags["pststream_term_statistics"].schedule == "20 1 * * *"
    assert dagbag.dags["pststream_pairs"].schedule == "15 * * * *"
    assert dagbag.dags["pststream_quarantine"].schedule is None
    assert dagbag.dags["pststream_health"].schedule == "*/5 * * * *"
    hourly = dagbag.dags["pststream_adjust_load"].schedule
    assert hourly.timetable.expression == "0 * * * *"
    assert [asset.uri.rstrip("/") for asset in hourly.asset_condition.objects] == ["pststream://imbalance"]
    questions = dagbag.dags["pststream_questions"].schedule
    assert questions.timetable.expression == "*/5 * * * *"
    assert [asset.uri.rstrip("/") for asset in questions.asset_condition.objects] == ["pststream://question_files"]


def test_a_dag_has_the_name_of_its_file(dagbag: Any) -> None:
    for name, dag in dagbag.dags.items():
        assert Path(dag.fileloc) == DAGS / f"{name.removeprefix('pststream_')}.py"


@pytest.mark.parametrize(("cron", "expected"), [("none", None), ("", None), ("5 4 * * *", "5 4 * * *")])
def test_the_environment_sets_the_schedule(
    airflow_home: Path, monkeypatch: pytest.MonkeyPatch, cron: str, expected: str | None
) -> None:
    from pststream.airflow import DagOptions

    monkeypatch.setenv("PSTSTREAM_OTHER_SCHEDULE", cron)
    monkeypatch.setenv("TEAM_A_OTHER_SCHEDULE", "1 1 * * *")
    assert DagOptions().dag_arguments("other", "@daily", priority=1)["schedule"] == expected
    assert DagOptions(prefix="").dag_arguments("other", "@daily", priority=1)["schedule"] == expected
    team = DagOptions(prefix="team-a_").dag_arguments("other", "@daily", priority=1)
    assert (team["dag_id"], team["schedule"]) == ("team-a_other", "1 1 * * *")
    in_code = DagOptions(schedules={"other": None}).dag_arguments("other", "@daily", priority=1)
    assert in_code["schedule"] is None


def test_steps_follow_each_other(dagbag: Any) -> None:
    for name in ("adjust_load", "repartition"):
        steps = dagbag.dags[f"pststream_{name}"].task_dict
        follows = {task: sorted(step.downstream_task_ids) for task, step in steps.items()}
        assert follows == {
            "check": ["plan"], "plan": ["approve", "replay", "show"], "show": ["approve"], "approve": ["apply"],
            "replay": [], "apply": ["publish"], "publish": [],
        }  # fmt: skip
        plan, apply = steps["plan"], steps["apply"]
        assert apply.application_args == [*plan.application_args[:-1], "--apply", plan.application_args[-1]]
        assert plan.page == apply.page


def test_the_fields_of_a_form_are_arguments_of_the_job(dagbag: Any) -> None:
    plan = dagbag.dags["pststream_repartition"].get_task("plan")
    form = {"planner": "hash", "kinds": "range,knn", "workers": None}
    given = [one for one in plan.application_args if one.startswith(("--planner", "--kinds", "--gain"))]
    arguments = plan.render_template(given, {"params": form})
    assert arguments == ["--planner=hash", "--kinds=range,knn", "--gain="]


def test_jobs_are_submitted_in_the_pool_with_the_connection(dagbag: Any) -> None:
    jobs = [(dag, task) for dag in ("repartition", "adjust_load") for task in ("plan", "replay", "apply")]
    jobs += [("micro_batch", "match"), ("check_tables", "check"), ("maintain", "maintain"), ("quarantine", "decide")]
    jobs += [("questions", "answer_files")]
    jobs += [("term_statistics", "count"), ("pairs", "update")]
    for dag, task in jobs:
        job = dagbag.dags[f"pststream_{dag}"].get_task(task)
        assert job.pool == names.SPARK_POOL
        assert job._conn_id == names.SPARK_CONNECTION
        assert Path(job.application).is_file()


def test_pool_and_connection_have_the_names_that_dags_use() -> None:
    pools = json.loads((ROOT / "infra" / "airflow" / "pools.json").read_text("utf-8"))
    connections = json.loads((ROOT / "infra" / "airflow" / "connections.json").read_text("utf-8"))
    assert list(pools) == [names.SPARK_POOL]
    assert pools[names.SPARK_POOL]["slots"] == 1
    assert list(connections) == [names.SPARK_CONNECTION]


def test_each_task_reports_its_failure(dagbag: Any) -> None:
    for dag in dagbag.dags.values():
        for task in dag.tasks:
            assert [callback.__name__ for callback in task.on_failure_callback] == ["report_failure"]


def test_no_task_logs_its_xcom(dagbag: Any) -> None:
    """By default Airflow logs what a Python function returns, such as all figures of a home."""
    for dag in dagbag.dags.values():
        for task in dag.tasks:
            assert not getattr(task, "show_return_value_in_logs", False), f"{dag.dag_id}.{task.task_id}"


def test_assets_have_the_stable_addresses(dagbag: Any) -> None:
    publishers = {
        "micro_batch": "pststream://matches",
        "repartition": "pststream://plans",
        "adjust_load": "pststream://plans",
    }
    for dag, address in publishers.items():
        [asset] = dagbag.dags[f"pststream_{dag}"].get_task("publish").outlets
        assert asset.uri.rstrip("/") == address
    [asset] = dagbag.dags["pststream_micro_batch"].get_task("check_balance").outlets
    assert asset.uri.rstrip("/") == "pststream://imbalance"


def test_every_field_of_a_form_has_title_section_and_description(dagbag: Any) -> None:
    for dag in dagbag.dags.values():
        for name, param in dag.params.items():
            param = dag.params.get_param(name)
            assert param.description, name
            assert param.schema["title"] and param.schema["section"], name


@pytest.mark.parametrize(
    ("dag", "form"),
    [
        ("repartition", {"planner": "voronoi"}),
        ("repartition", {"planner": 1}),
        ("repartition", {"kinds": "range"}),
        ("repartition", {"workers": 0}),
        ("repartition", {"workers": 10_001}),
        ("repartition", {"workers": "8"}),
        ("repartition", {"workers": 2.5}),
        ("repartition", {"dry_run": "yes"}),
        ("repartition", {"from_version": -1}),
        ("repartition", {"to_version": "newest"}),
        ("repartition", {"home": ""}),
        ("micro_batch", {"max_objects": 0}),
        ("micro_batch", {"max_objects": "all"}),
        ("micro_batch", {"strict": "no"}),
        ("micro_batch", {"landing": 7}),
        ("adjust_load", {"method": "best"}),
        ("adjust_load", {"sigma": 1}),
        ("adjust_load", {"sigma": "low"}),
        ("quarantine", {"action": "burn", "holds": "1"}),
        ("quarantine", {"holds": "all"}),
        ("quarantine", {"holds": "0"}),
        ("quarantine", {"holds": "1; rm"}),
        ("check_tables", {"all": "yes"}),
        ("adjust_load", {"approval": "no"}),
        ("repartition", {"gain": 1}),
        ("repartition", {"gain": -0.1}),
        ("questions", {"kind": "nearest"}),
        ("questions", {"k": 0}),
        ("questions", {"k": 10_001}),
        ("questions", {"k": "10"}),
        ("questions", {"limit": 1.5}),
        ("questions", {"alpha": 1.01}),
        ("questions", {"distance_scale_m": 0}),
        ("questions", {"lon": 181}),
        ("questions", {"south": -90.5}),
        ("questions", {"radius_m": -1}),
        ("questions", {"geometry": "POLYGON EMPTY"}),
        ("questions", {"window": "3 days"}),
        ("questions", {"as_of": "yesterday"}),
        ("questions", {"version": -1}),
    ],
)
def test_a_bad_value_in_a_form_is_refused(dagbag: Any, dag: str, form: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = dagbag.dags[f"pststream_{dag}"].params
    with pytest.raises(ParamValidationError):
        params.update(form)


@pytest.mark.parametrize(
    ("dag", "form"),
    [
        ("repartition", {"planner": None, "workers": 1, "dry_run": True, "from_version": 0, "to_version": 3}),
        *[("repartition", {"planner": planner, "workers": 10_000}) for planner in names.PLANNERS],
        *[("repartition", {"planner": planner, "dry_run": True}) for planner in names.TOPK_PLANNERS],
        *[("repartition", {"planner": "hash", "kinds": kinds}) for kinds in names.PLANNERS_OF],
        ("repartition", {"planner": None, "kinds": None}),
        ("micro_batch", {"max_objects": 1, "strict": True, "home": "h", "landing": "l"}),
        ("repartition", {"gain": 0.25, "approval": True}),
        ("micro_batch", {}),
        *[("questions", {"kind": kind, "k": 10, "as_of": "2026-03-01T00:00:00Z"}) for kind in names.QUESTION_KINDS],
        ("questions", {"window": "72h", "lon": 18.07, "lat": 59, "alpha": 0.5, "geometry": {"type": "Polygon"}}),
        ("questions", {"window": "objects=1000"}),
        ("quarantine", {"action": "release", "holds": "1"}),
        ("quarantine", {"action": "discard", "holds": " 1, 2 30"}),
        ("check_tables", {"all": True}),
        ("maintain", {"home": "h"}),
        ("health", {"expect_watcher": True, "max_lag_seconds": 5, "max_imbalance": 1.5, "max_reject_share": 0}),
        *[("adjust_load", {"method": method, "sigma": 1.5, "dry_run": True}) for method in names.BALANCERS],
    ],
)
def test_a_good_value_is_accepted(dagbag: Any, dag: str, form: dict[str, Any]) -> None:
    params = dagbag.dags[f"pststream_{dag}"].params
    params.update(form)
    params.validate()


def test_a_refused_run_starts_no_task(dagbag: Any) -> None:
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk.exceptions import ParamValidationError
    from airflow.utils.session import create_session

    def tasks() -> int:
        with create_session() as session:
            return session.query(TaskInstance).filter(TaskInstance.dag_id == "pststream_repartition").count()

    before = tasks()
    with pytest.raises((ParamValidationError, ValueError), match="voronoi"):
        dagbag.dags["pststream_repartition"].test(run_conf={"planner": "voronoi"})
    assert tasks() == before
