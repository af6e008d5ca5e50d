"""DAG runs that end early: rejected rows, a dry run, load in balance, a bad input, no connection."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Home
from tests.dags.dag_runs import FinishedRun
from tests.dags.landing_folder import PAIRS, fill_landing

pytestmark = [pytest.mark.airflow, pytest.mark.deep]


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
    ran = FinishedRun(dagbag.dags["pststream_micro_batch"], form(place, strict=True))
    skipped = dict.fromkeys(("deliver", "check_balance", "publish_answers"), "skipped")
    assert ran.states == skipped | {"match": "success", "publish": "success", "check_rejects": "failed"}
    assert ran.tries["check_rejects"] == 1, "rejected rows do not get better by a retry"
    assert pairs(place / "home") == PAIRS


def test_a_dry_run_shows_and_replays_a_change(dagbag: Any, place: Path) -> None:
    home = Home(place / "home")
    before = home.run("plan", "--planner", "frequency", "--workers", "2")["plan_version"]
    fields = {"home": str(home.path), "planner": "kd_tree", "dry_run": True}
    dry = FinishedRun(dagbag.dags["pststream_repartition"], fields)
    steps = dict.fromkeys(("check", "plan", "show", "replay"), "success")
    assert dry.states == steps | dict.fromkeys(["approve", "apply", "publish"], "skipped")
    tried = dry.xcom("replay")
    assert tried["matches_equal"] and tried["plan"]["planner"] == "kd_tree" and tried["was"]["plan_versions"] == [1]
    assert tried["was"]["matches"] == tried["would_be"]["matches"] == len(PAIRS)
    assert tried["page"].endswith("-replay.html")
    assert home.run("plans", "show")["plan_version"] == before


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
