"""A DAG run with a form value whose job is killed and retried, then a plan change that a person approves.

The runs are of Airflow's own `dag.test`; test_stopped_runs.py and others have more of them.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.commands import Home
from tests.dags.dag_runs import answered, killed_once
from tests.dags.landing_folder import ACCEPTED, PAIRS, REJECTED, fill_landing

pytestmark = pytest.mark.airflow


def test_a_killed_job_is_retried_and_a_plan_change_is_approved(
    dagbag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("PSTSTREAM_SIGMA", "100000")  # no imbalance by noise
    home, landing = Home(tmp_path / "home"), fill_landing(tmp_path / "landing")

    # The job is killed after the first of two batches.
    monkeypatch.setenv("PSTSTREAM_CRASH_AT", "match.done")
    form = {"home": str(home.path), "landing": str(landing), "max_objects": 3}
    ran = killed_once(dagbag.dags["pststream_micro_batch"], form, monkeypatch)
    skipped = dict.fromkeys(("deliver", "check_balance", "publish_answers"), "skipped")
    assert ran.states == skipped | dict.fromkeys(("match", "publish", "check_rejects"), "success")
    assert ran.tries["match"] == 2
    summary = ran.xcom("match")
    assert (summary["accepted"], summary["rejected"], summary["files"]) == (ACCEPTED, REJECTED, 2)
    assert summary["rejects_by_reason"] == {"out_of_range": 1}
    assert (summary["batches"], summary["objects"], summary["matches"]) == (2, 5, len(PAIRS)), "of both tries"
    assert summary["plan_version"] == 1
    assert summary["table_version"] >= 1
    assert ran.events() == [summary]
    assert pairs(home) == PAIRS

    form = {"home": str(home.path), "planner": "grid", "workers": 3, "approval": True}
    changed = answered(dagbag.dags["pststream_repartition"], form, "Approve", monkeypatch)
    steps = dict.fromkeys(("check", "plan", "show", "approve", "apply", "publish"), "success")
    assert changed.states == steps | {"replay": "skipped"}
    shown, done = changed.xcom("plan"), changed.xcom("apply")
    assert (shown["dry_run"], done["dry_run"]) == (True, False)
    changing = {"dry_run": None, "seconds": None, "page": None}
    assert done | changing == shown | changing
    assert (done["kind"], done["plan_version_before"], done["plan_version"]) == ("plan", 1, 2)
    assert (len(done["load_before"]), len(done["load_after"])) == (2, 3)
    assert "worker 2" in changed.xcom("show")
    question = changed.question("approve")
    assert (question.subject, question.chosen_options) == ("pststream_repartition: change plan 1?", ["Approve"])
    assert shown["page"] in question.body and shown["reason"] in question.body
    [event] = changed.events()
    assert event["plan_version"] == 2 and event["page"] == done["page"]
    assert home.run("plans", "show")["plan_version"] == 2
    assert pairs(home) == PAIRS


def pairs(home: Home) -> list[tuple[str, str]]:
    return [(object_id, subscription_id) for object_id, _, subscription_id in home.exported()]
