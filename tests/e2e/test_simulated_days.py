"""Run the three DAGs under the real scheduler over days of a drifting stream, then check the tables.

The clock is compressed: a simulated half day is as long as its runs. `adjust_load` runs by its asset if a batch has
notified that the workers are out of balance; `repartition` at the end of each day, after approval.
"""

import shutil
import urllib.error
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from deltalake import DeltaTable

from tests.airflow_database import empty_database
from tests.commands import Home
from tests.e2e import days
from tests.e2e.airflow_api import RUN, Airflow, standalone, wait_for
from tests.oracles import twin_fast
from tests.oracles.twin_rows import LogFile

pytestmark = [pytest.mark.days, pytest.mark.airflow, pytest.mark.e2e]

HOURS = ((6,), (6, 18), (6,), (6,))
"""Hours of each day. Between two batches of a day `adjust_load` always runs, as at the next full hour."""
BATCHES = 5
ANSWERS = {1: "Reject", 2: "Approve"}
"""Answers to the proposals of `repartition` at the end of a day; the first is a dry run, the last has none."""
SETTINGS = {
    "PSTSTREAM_WORKERS": "4",
    "PSTSTREAM_PLANNER": "kd_tree",
    "PSTSTREAM_SIGMA": "1.4",
    "PSTSTREAM_BALANCE_BATCHES": "1",
    "PSTSTREAM_REPARTITION_GAIN": "0.05",
    "PSTSTREAM_ADJUST_LOAD_SCHEDULE": "0 0 29 2 *",  # by its asset, then, and by hand
}
MICRO_BATCH, ADJUST, REPARTITION = "pststream_micro_batch", "pststream_adjust_load", "pststream_repartition"
DAGS = (MICRO_BATCH, ADJUST, REPARTITION)


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("days")
    (folder / "airflow").mkdir()
    shutil.copy(empty_database(tmp_path_factory.getbasetemp()), folder / "airflow")
    with standalone(folder, SETTINGS) as here:
        for dag in DAGS:
            here.turn_on(dag)
        yield here


@pytest.fixture(scope="module")
def log(airflow: Airflow) -> list[LogFile]:
    """Run all days; return the files that landed."""
    landed = []
    for day, hours in enumerate(HOURS):
        for hour in hours:
            landed += days.land(airflow.folder / "landing", day, hour)
            known = set(airflow.runs(ADJUST))
            run = finished(airflow, MICRO_BATCH, airflow.trigger(MICRO_BATCH, {}))
            triggered = airflow.states(MICRO_BATCH, run)["check_balance"] == "success"
            if not triggered and hour != hours[-1]:
                airflow.trigger(ADJUST, {})
            if triggered or hour != hours[-1]:
                wait_for(lambda known=known: set(airflow.runs(ADJUST)) - known, RUN, "a run of adjust_load")
            for run in set(airflow.runs(ADJUST)) - known:
                finished(airflow, ADJUST, run)
        if day < len(HOURS) - 1:
            run = airflow.trigger(REPARTITION, {"planner": "hybrid", "gain": 0, "approval": True, "dry_run": day == 0})
            if answer := ANSWERS.get(day):
                airflow.answer(REPARTITION, run, "approve", answer)
            finished(airflow, REPARTITION, run)
    return landed


def finished(airflow: Airflow, dag: str, run: str) -> str:
    """Wait for the end of a run, assert success, return its id."""
    state, tasks = airflow.end_of(dag, run), airflow.states(dag, run)
    print(f"{dag} {run}: {tasks}")
    assert state == "success", [airflow.log(dag, run, task) for task, state in tasks.items() if state == "failed"]
    return run


def rows(airflow: Airflow, table: str) -> list[dict[str, Any]]:
    """Read a table as any Delta reader does."""
    return DeltaTable(airflow.folder / "home" / "tables" / table).to_pyarrow_table().to_pylist()


@pytest.mark.timeout(1200)
def test_matches_are_those_of_the_twin(airflow: Airflow, log: list[LogFile]) -> None:
    exported = Home(airflow.folder / "home").exported()
    assert len(exported) == len(set(exported)) > 1000
    assert set(exported) == twin_fast.outcome_of(log).matches


def test_the_tables_tell_what_moved_when_and_why(airflow: Airflow, log: list[LogFile]) -> None:
    plans = sorted(rows(airflow, "plans"), key=lambda plan: plan["plan_version"])
    migrations = {row["plan_version"]: row for row in rows(airflow, "migrations")}
    kinds = [migrations[plan["plan_version"]]["kind"] for plan in plans[1:]]
    print(kinds)
    assert [plan["plan_version"] for plan in plans] == list(range(1, len(plans) + 1))
    assert sorted(migrations) == list(range(2, len(plans) + 1)), "every plan but the first was migrated to"
    assert "local" in kinds and "global" in kinds
    for before, after in pairwise(plans):
        move = migrations[after["plan_version"]]
        assert move["plan_version_before"] == before["plan_version"]
        assert before["created_at"] < move["decided_at"] <= after["created_at"]
        assert move["reason"] in {"gr", "split", "merge", "hybrid", "retire"}
        assert max(move["load_after"]) < max(move["load_before"]) or move["kind"] == "retire"
        assert move["expected_gain"] == pytest.approx(1 - max(move["load_after"]) / max(move["load_before"]), abs=1e-4)
    for batch in (row for row in rows(airflow, "batches") if row["status"] == "done"):
        in_force = [plan for plan in plans if plan["created_at"] < batch["started_at"]]
        assert batch["plan_version"] == max((plan["plan_version"] for plan in in_force), default=1)


def test_the_tables_tell_what_an_adjustment_gained(airflow: Airflow, log: list[LogFile]) -> None:
    """Of two batches of one day with an adjustment in between, the later gives its busiest worker a smaller share."""
    done = sorted((row for row in rows(airflow, "batches") if row["status"] == "done"), key=lambda row: row["batch_id"])
    assert len(done) == BATCHES
    loads = [row for row in rows(airflow, "unit_loads") if row["unit"] == -1]
    migrations = {row["plan_version"]: row["kind"] for row in rows(airflow, "migrations")}
    morning, evening = done[1:3]
    between = range(morning["plan_version"] + 1, evening["plan_version"] + 1)
    assert [migrations[version] for version in between] == ["local"]
    before, after = (busiest_part(loads, batch["batch_id"]) for batch in (morning, evening))
    print(f"the busiest of four workers has {before:.1%}, then {after:.1%} of the work")
    assert after < 0.8 * before


def busiest_part(loads: list[dict[str, Any]], batch: int) -> float:
    """Compute the greatest share of a worker in the objects and candidates of a batch."""
    work = np.zeros(4)
    for row in loads:
        if row["batch_id"] == batch:
            work[row["worker"]] += row["objects"] + row["candidates"]
    return float(work.max() / work.sum())


def test_the_history_can_be_read_by_command(airflow: Airflow, log: list[LogFile]) -> None:
    history = Home(airflow.folder / "home").run("balance", "history")["plans"]
    assert [row["plan_version"] for row in history] == list(range(1, len(rows(airflow, "plans")) + 1))
    assert sorted(number for row in history for number in row["batches"]) == list(range(1, BATCHES + 1))
    assert [row["kind"] for row in history if row["moves"]] == [row["kind"] for row in history[1:]]


def test_a_violated_balance_starts_an_adjustment(airflow: Airflow, log: list[LogFile]) -> None:
    events = [event for event in airflow.events(MICRO_BATCH) if "imbalance" in event["uri"]]
    runs = airflow.runs(ADJUST)
    assert sum(run.startswith("asset_triggered") for run in runs) == len(events) >= 1
    versions = [event["extra"]["plan_version"] for event in events]
    assert len(versions) == len(set(versions)), "once for each plan version"


def test_a_person_refuses_and_approves(airflow: Airflow, log: list[LogFile]) -> None:
    refused, approved = airflow.runs(REPARTITION)[-2:]
    for run, option, done in ((refused, "Reject", "skipped"), (approved, "Approve", "success")):
        states = airflow.states(REPARTITION, run)
        assert (states["approve"], states["apply"], states["publish"]) == ("success", done, done)
        proposed = airflow.xcom(REPARTITION, run, "plan")
        assert proposed["plan_version"] == proposed["plan_version_before"] + 1
        question = airflow.question(REPARTITION, run, "approve")
        assert question["chosen_options"] == [option]
        assert question["subject"] == f"pststream_repartition: change plan {proposed['plan_version_before']}?"
        assert proposed["page"] in question["body"] and proposed["reason"] in question["body"]
    reasons = {row["reason"] for row in rows(airflow, "migrations") if row["plan_version"] == proposed["plan_version"]}
    assert reasons <= {"hybrid", "retire"}


def test_the_page_opens_from_the_task_for_who_is_logged_in(airflow: Airflow, log: list[LogFile]) -> None:
    applied = [run for run in airflow.runs(REPARTITION) if airflow.states(REPARTITION, run)["apply"] == "success"]
    [link] = {
        address for task in ("plan", "apply") for address in airflow.links(REPARTITION, applied[0], task).values()
    }
    assert link is not None
    page = airflow.page(link)
    assert "Repartition: plan" in page and "applied" in page
    summary = airflow.xcom(REPARTITION, applied[0], "apply")
    assert summary["page"] == link and f"{summary['moved_subscriptions']:,}" in page
    for stranger, code in (((link, False), 401), ((link.rpartition("/")[0] + "/..%2Fpststream.toml", True), 404)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            airflow.page(*stranger)
        assert refused.value.code == code
