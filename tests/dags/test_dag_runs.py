"""DAG runs as Airflow runs them, on a small home; test_submitted_dag_runs.py runs the like on Spark."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Home
from tests.dags.dag_runs import FinishedRun, killed_once
from tests.dags.landing_folder import ACCEPTED, PAIRS, REJECTED, fill_landing

pytestmark = [pytest.mark.airflow, pytest.mark.slow]


QUIET = {"deliver": "skipped", "check_balance": "skipped", "publish_answers": "skipped"}
"""States without a sink, without an imbalance and without questions."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a landing folder; the tests here share one home in it, and follow each other."""
    folder = tmp_path_factory.mktemp("dags")
    fill_landing(folder / "landing")
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make jobs take seconds: few workers; and no imbalance by noise."""
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("PSTSTREAM_SIGMA", "100000")


def pairs(home: Path) -> list[tuple[str, str]]:
    return [(object_id, subscription_id) for object_id, _, subscription_id in Home(home).exported()]


def form(place: Path, **fields: Any) -> dict[str, Any]:
    return {"home": str(place / "home"), "landing": str(place / "landing")} | fields


def test_a_strict_run_matches_what_it_accepted_and_fails_over_the_rest(dagbag: Any, place: Path) -> None:
    ran = FinishedRun(dagbag.dags["pststream_micro_batch"], form(place, max_objects=3, strict=True))
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


def test_a_run_without_new_files_writes_no_event(dagbag: Any, place: Path) -> None:
    ran = FinishedRun(dagbag.dags["pststream_micro_batch"], form(place, strict=True))
    assert ran.state == "success"
    assert ran.states == QUIET | {"match": "success", "publish": "skipped", "check_rejects": "skipped"}
    assert ran.events() == []
    assert pairs(place / "home") == PAIRS


def test_repartition_over_more_workers_makes_a_new_plan(dagbag: Any, place: Path) -> None:
    ran = FinishedRun(
        dagbag.dags["pststream_repartition"], {"home": str(place / "home"), "planner": "grid", "workers": 3}
    )
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
    dry = FinishedRun(dagbag.dags["pststream_repartition"], fields | {"dry_run": True})
    steps = dict.fromkeys(("check", "plan", "show", "replay"), "success")
    assert dry.states == steps | dict.fromkeys(["approve", "apply", "publish"], "skipped")
    tried = dry.xcom("replay")
    assert tried["matches_equal"] and tried["plan"]["planner"] == "kd_tree" and tried["was"]["plan_versions"] == [1]
    assert tried["was"]["matches"] == tried["would_be"]["matches"] == len(PAIRS)
    assert tried["page"].endswith("-replay.html")
    ran = FinishedRun(
        dagbag.dags["pststream_repartition"], fields | {"dry_run": False}
    )  # dag.test keeps the form of the run before
    assert ran.states.pop("replay") == "skipped"
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
    ran = FinishedRun(dagbag.dags["pststream_adjust_load"], fields)
    assert set(ran.states.values()) == {"skipped"}
    assert pairs(place / "home") == PAIRS


def test_a_bad_input_is_not_retried(dagbag: Any, place: Path) -> None:
    ran = FinishedRun(dagbag.dags["pststream_micro_batch"], form(place, landing=str(place / "nowhere")))
    others = dict.fromkeys(("publish", "publish_answers", "check_balance", "check_rejects"), "upstream_failed")
    assert ran.states == others | {"match": "failed", "deliver": "success"}
    assert ran.tries["match"] == 1


def test_a_missing_connection_is_not_retried(dagbag: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CONN_")]:
        monkeypatch.delenv(name)
    ran = FinishedRun(dagbag.dags["pststream_micro_batch"], form(place))
    assert (ran.states["match"], ran.tries["match"]) == ("failed", 1)


@pytest.mark.parametrize("crash_point", ["match.matched", "match.done"])
def test_a_killed_job_is_retried_and_writes_nothing_twice(
    dagbag: Any, place: Path, monkeypatch: pytest.MonkeyPatch, crash_point: str
) -> None:
    monkeypatch.setenv("PSTSTREAM_CRASH_AT", crash_point)
    ran = killed_once(dagbag.dags["pststream_micro_batch"], form(place, home=str(place / crash_point)), monkeypatch)
    assert ran.state == "success"
    assert ran.tries["match"] == 2
    summary = ran.xcom("match")
    assert (summary["batches"], summary["files"]) == (1, 2), "the killed try did all, and the last try reports it"
    assert ran.states["publish"] == "success"
    assert pairs(place / crash_point) == PAIRS
