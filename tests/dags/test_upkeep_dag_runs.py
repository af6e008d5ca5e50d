"""DAG runs of upkeep: release a quarantined file, check the tables."""

import os
from pathlib import Path
from typing import Any

import pytest

from pststream.state import ledger_tables
from pststream.state.home import Home as Tables
from tests.commands import Home, new_home
from tests.dags.dag_runs import FinishedRun
from tests.dags.landing_folder import fill_landing
from tests.lean_jvm import LEAN

pytestmark = [pytest.mark.airflow, pytest.mark.deep]


def test_release_and_check(dagbag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", LEAN)
    assert "PSTSTREAM_HOME" not in os.environ
    home, folder = new_home(tmp_path / "home"), fill_landing(tmp_path / "landing")
    home.set(gate_min_rows=1, gate_bad_share=0.1)
    document = home.run("run", folder)
    (hold,) = document["ingest"]["objects"]["quarantined"]
    where = {"home": str(home.path)}

    decide = dagbag.dags["pststream_quarantine"]
    refused = FinishedRun(decide, where | {"action": "release", "holds": "99"})
    assert (refused.states, refused.tries) == ({"decide": "failed"}, {"decide": 1})
    released = FinishedRun(decide, where | {"action": "release", "holds": str(hold["hold_id"])})
    assert released.state == "success"
    assert (released.xcom("decide")["accepted"], released.xcom("decide")["rejected"]) == (5, 1)
    home.match()
    assert len(home.exported()) == 4

    good = FinishedRun(dagbag.dags["pststream_check_tables"], where)
    assert good.states == {"check": "success", "verdict": "success"}
    assert good.xcom("check")["success"] is True
    assert_a_broken_table_fails_once(dagbag, home, where)


def assert_a_broken_table_fails_once(dagbag: Any, home: Home, where: dict[str, str]) -> None:
    ledger_tables.delete_versions(Tables(home.path), "worker_index", "worker", 0, 1)
    bad = FinishedRun(dagbag.dags["pststream_check_tables"], where)
    assert bad.states == {"check": "success", "verdict": "failed"}
    assert bad.tries["verdict"] == 1
    (placement,) = [one for one in bad.xcom("check")["checks"] if one["check"] == "placement"]
    assert placement["figures"]["missing"] == 3
