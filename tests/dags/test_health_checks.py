"""The DAG `health` raises one alert for each problem of a home, and none without a problem."""

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow.dataset as pds
import pytest

from pststream.base import names
from pststream.base.utc_times import utc_now
from pststream.pipeline.delivery.deliver import deliver
from pststream.settings import load_settings
from pststream.state import ledger_tables, quarantine
from pststream.state.heartbeat import Heartbeat
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from tests.dags.dag_runs import FinishedRun
from tests.damage import delete_rows
from tests.matched_homes import add_matched_batch, add_subscriptions
from tests.unit.reports.commands.homes import add_batch, add_file, add_plan, at, halves, reject, thing

pytestmark = pytest.mark.airflow


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose last batch is done."""
    home = Home(tmp_path / "home")
    home.init()
    add_plan(home, halves())
    add_matched_batch(home, add_subscriptions(home, 4), 6, seed=1)
    return home


def ingested_now(home: Home, accepted: int, rejected: int) -> None:
    """Add a file of objects that was ingested just now."""
    rows = [thing(row, f"n{row}", 200) for row in range(1, accepted + 1)]
    seq = add_file(home, "objects", rows, [reject(accepted + row, "missing") for row in range(1, rejected + 1)])
    rows = read_table(
        home.table(names.FILES), filter=(pds.field("file_seq") == seq) & (pds.field("status") == "done")
    ).to_pylist()
    delete_rows(home, names.FILES, f"file_seq = {seq}")
    ledger_tables.append(home, names.FILES, [row | {"started_at": utc_now()} for row in rows])


def broken_watcher(home: Home) -> None:
    with pytest.raises(RuntimeError), Heartbeat(home):
        raise RuntimeError("Spark has died")


def broken_lag(home: Home) -> None:
    add_file(home, "objects", [thing(1, "late")])


def broken_balance(home: Home) -> None:
    for _ in range(8):
        add_file(home, "objects", [thing(1, "o")])
        add_batch(home, cpu_seconds=(9.0, 1.0))


def broken_rejects(home: Home) -> None:
    ingested_now(home, 80, 30)
    add_batch(home)


def broken_clock(home: Home) -> None:
    add_file(home, "objects", [thing(1, "ahead", (utc_now() - at(0)).total_seconds() / 60 + 120)])


def broken_gate(home: Home) -> None:
    bad = Path(home.path).parent / "bad.csv"
    bad.write_text("no table")
    file = {"kind": "objects", "path": str(bad), "bytes": 8, "options": "{}"}
    quarantine.add_entries(home, [(file | {"sha256": sha256(bad)}, ["no column object_id"])], 1)


def broken_sinks(home: Home) -> None:
    sink = {"kind": "webhook", "target": "http://127.0.0.1:9/closed", "networks": "127.0.0.0/8", "tries": 1}
    lines = [f"{key} = {json.dumps(value)}" for key, value in sink.items()]
    with open(f"{home.path}/pststream.toml", "a") as file:
        file.write("\n".join(["[sinks.pager]", *lines, ""]))
    sink = deliver(home, load_settings(home.path))["sinks"]["pager"]
    assert sink["state"] == "down"


def sha256(path: Path) -> str:
    from pststream.input.input_files import sha256_of

    return sha256_of(str(path))


def run_health(dagbag: Any, home: Home, **fields: Any) -> FinishedRun:
    dag = dagbag.dags["pststream_health"]
    defaults = {name: dag.params[name] for name in dag.params}
    return FinishedRun(dag, defaults | {"home": home.path} | fields)


@pytest.mark.deep
def test_a_home_without_problems(dagbag: Any, home: Home) -> None:
    with Heartbeat(home) as heart:
        heart.report("idle")
        finished = run_health(dagbag, home, expect_watcher=True)
    assert set(finished.states.values()) == {"success"}
    assert "idle" in finished.xcom("watcher")


PROBLEMS = {
    "rejects": (broken_rejects, "TooManyRejects", "30 of 110 rows"),
    "balance": (broken_balance, "OutOfBalance", "imbalance 9 (greatest load over least), batches: 8"),
    "lag": (broken_lag, "Lagging", "is not matched"),
    "watcher": (broken_watcher, "WatcherDown", "Spark has died"),
    "clock": (broken_clock, "WatermarkAhead", "further ahead of the clock"),
    "gate": (broken_gate, "FilesQuarantined", "decision: 1"),
    "sinks": (broken_sinks, "SinkDead", "pager: down"),
}


@pytest.mark.deep
def test_one_alert_for_each_problem(dagbag: Any, home: Home, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream.airflow import alerts

    monkeypatch.setenv("PSTSTREAM_SINK_PAGER_SECRET", "x" * 32)
    for breaks, _, _ in PROBLEMS.values():
        breaks(home)
    caplog.set_level(logging.ERROR, alerts.log.name)
    finished = run_health(dagbag, home)
    assert finished.states == dict.fromkeys(PROBLEMS, "failed") | {"read_status": "success"}
    assert all(finished.tries[check] == 1 for check in PROBLEMS), "a retry does not help"
    found = [record.message for record in caplog.records if record.name == alerts.log.name]
    assert len(found) == len(PROBLEMS)
    for check, (_, error, says) in PROBLEMS.items():
        (alert,) = [message for message in found if message.startswith(f"FAILED: pststream_health.{check},")]
        assert f"{error}: " in alert and says in alert and alerts.REMEDIES[error] in alert
    _the_next_run_reports_changes_only(dagbag, home, caplog)


def _the_next_run_reports_changes_only(dagbag: Any, home: Home, caplog: Any) -> None:
    """Three problems last; three are none under the thresholds of the next run."""
    from pststream.airflow import alerts

    caplog.clear()
    caplog.set_level(logging.INFO, alerts.log.name)
    solved = {"lag": "success", "balance": "success", "rejects": "success"}
    finished = run_health(dagbag, home, max_lag_seconds=1e12, max_imbalance=1e9, max_reject_share=1)
    assert finished.states == dict.fromkeys(PROBLEMS, "failed") | {"read_status": "success"} | solved
    messages = [record.message for record in caplog.records if record.name == alerts.log.name]
    assert sorted(message.partition(",")[0] for message in messages) == [
        f"RECOVERED: pststream_health.{check}" for check in sorted(solved)
    ]


def test_an_idle_worker_is_out_of_balance() -> None:
    from pststream.airflow.dags.adjust_load import why_balanced
    from pststream.airflow.dags.health import OutOfBalance, check_imbalance

    measured = {"plan_version": 1, "batches": 8, "measured_imbalance": None, "violated": True}
    with pytest.raises(OutOfBalance, match=r"imbalance infinite \(idle worker\) .*; limit 3"):
        check_imbalance(measured, 3)
    assert why_balanced(measured) is None
    few = measured | {"violated": False, "batches": 1}
    assert "infinite (idle worker), batches: 1" in str(why_balanced(few))
    assert check_imbalance(few, 3).startswith("measured imbalance infinite (idle worker)")


def test_a_stopped_watcher_is_a_problem_only_where_one_is_expected(airflow_home: Path, home: Home) -> None:
    from pststream.airflow.dags.health import WatcherDown, check_watcher
    from pststream.reports.reading.home_figures import read_watcher

    with Heartbeat(home):
        pass
    ended = read_watcher(home, utc_now())
    assert "stopped" in check_watcher(ended, expected=False)
    for found in (ended, None):
        with pytest.raises(WatcherDown):
            check_watcher(found, expected=True)
    assert check_watcher(None, expected=False) == "no watcher"


def test_a_watcher_that_is_behind(airflow_home: Path) -> None:
    from pststream.airflow.dags.health import Lagging, check_lag

    found = {"alive": True, "lag_seconds": 301.0, "waiting_files": 4, "state": "failing", "since": "x", "error": "disk"}
    assert check_lag(0.0, found, 302)
    with pytest.raises(Lagging, match="5 min 1 s behind; files waiting: 4;.*disk"):
        check_lag(0.0, found, 300)
    assert check_lag(0.0, found | {"alive": False}, 300), "the check `watcher` reports that"
