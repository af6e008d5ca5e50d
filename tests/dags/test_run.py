"""The DAGs run as Airflow runs them, each task in its turn, on a small home: Spark is submitted, tables written."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Home
from tests.dags.landing import ACCEPTED, PAIRS, REJECTED, fill
from tests.dags.ran import Ran

pytestmark = [pytest.mark.airflow, pytest.mark.spark]


QUIET = {"deliver": "success", "check_balance": "skipped"}
"""No sink to tell, no balance violated."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a landing folder, and room for the home; the tests here go on from each other's home."""
    folder = tmp_path_factory.mktemp("dags")
    fill(folder / "landing")
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that last seconds: few workers, and a JVM that does not compile twice. Noise is no imbalance."""
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("PSTSTREAM_SIGMA", "100000")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


def pairs(home: Path) -> list[tuple[str, str]]:
    return [(object_id, subscription_id) for object_id, _, subscription_id in Home(home).exported()]


def form(place: Path, **fields: Any) -> dict[str, Any]:
    return {"home": str(place / "home"), "landing": str(place / "landing")} | fields


def test_a_strict_run_matches_what_it_accepted_and_fails_over_the_rest(dagbag: Any, place: Path) -> None:
    ran = Ran(dagbag.dags["micro_batch"], form(place, max_objects=3, strict=True))
    assert ran.states == QUIET | {"match": "success", "publish": "success", "check_rejects": "failed"}
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
    assert ran.states == QUIET | {"match": "success", "publish": "skipped", "check_rejects": "success"}
    assert ran.events() == []
    assert pairs(place / "home") == PAIRS


@pytest.mark.slow
def test_repartition_over_more_workers_makes_a_plan_anew(dagbag: Any, place: Path) -> None:
    ran = Ran(dagbag.dags["repartition"], {"home": str(place / "home"), "planner": "grid", "workers": 3})
    assert ran.state == "success"
    done = ran.xcom("apply")
    assert (done["kind"], done["plan_version_before"], done["plan_version"]) == ("plan", 1, 2)
    assert (len(done["load_before"]), len(done["load_after"])) == (2, 3)
    [event] = ran.events()
    assert event["plan_version"] == 2
    assert "worker 2" in ran.xcom("show")
    assert Home(place / "home").run("plans", "show")["plan_version"] == 2


def test_a_repartition_is_shown_and_then_applied(dagbag: Any, place: Path) -> None:
    home = Home(place / "home")
    before = home.run("plan", "--planner", "frequency", "--workers", "2")["plan_version"]
    fields = {"home": str(place / "home"), "planner": "kd_tree"}
    dry = Ran(dagbag.dags["repartition"], fields | {"dry_run": True})
    steps = {"check": "success", "plan": "success", "show": "success"}
    assert dry.states == steps | dict.fromkeys(["approve", "apply", "publish"], "skipped")
    ran = Ran(dagbag.dags["repartition"], fields | {"dry_run": False})  # dag.test keeps the form of the run before
    assert set(ran.states.values()) == {"success"}
    shown, done = ran.xcom("plan"), ran.xcom("apply")
    assert (shown["dry_run"], done["dry_run"]) == (True, False)
    changing = {"dry_run": None, "seconds": None, "page": None}
    assert done | changing == shown | changing == dry.xcom("plan") | changing
    assert (done["plan_version_before"], done["plan_version"]) == (before, before + 1)
    [event] = ran.events()
    assert event["plan_version"] == before + 1 and event["page"] == done["page"]
    assert home.run("plans", "show")["plan_version"] == before + 1
    assert pairs(place / "home") == PAIRS


def test_load_in_balance_is_left_alone(dagbag: Any, place: Path) -> None:
    fields = {"home": str(place / "home"), "method": "gr"}
    ran = Ran(dagbag.dags["adjust_load"], fields)
    assert set(ran.states.values()) == {"skipped"}
    assert pairs(place / "home") == PAIRS


@pytest.mark.slow
def test_a_bad_input_is_not_tried_again(dagbag: Any, place: Path) -> None:
    ran = Ran(dagbag.dags["micro_batch"], form(place, landing=str(place / "nowhere")))
    others = dict.fromkeys(("publish", "check_balance", "check_rejects"), "upstream_failed")
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

    monkeypatch.setenv("PSTSTREAM_CRASH_AT", "match.done")
    dag = dagbag.dags["micro_batch"]
    job = dag.get_task("match")
    job.retry_policy = ExceptionRetryPolicy([RetryRule(JobLost, RetryAction.RETRY, timedelta(seconds=1))])
    job.on_retry_callback = [lambda context: monkeypatch.delenv("PSTSTREAM_CRASH_AT")]
    ran = Ran(dag, form(place, home=str(place / "other")))
    assert ran.state == "success"
    assert ran.tries["match"] == 2
    told = ran.xcom("match")
    assert (told["batches"], told["files"]) == (1, 2), "the try that was killed did all, and the other tells it"
    assert ran.states["publish"] == "success"
    assert pairs(place / "other") == PAIRS
