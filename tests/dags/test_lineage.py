"""Lineage: events of a job for each ingest and batch, and the tables that a task reports to Airflow."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pststream.base.lineage_events import dataset_name
from pststream.state.home import Home
from tests.dags.landing_folder import PAIRS, fill_landing
from tests.openlineage_schema import check_event

ROOT = Path(__file__).parents[2]
TASK = ("default/micro_batch.match/01900000-0000-7000-8000-000000000001", "01900000-0000-7000-8000-000000000001")


@pytest.mark.deep
def test_a_job_sends_events_of_each_ingest_and_batch_with_its_task_as_parent(tmp_path: Path) -> None:
    home, landing, file = tmp_path / "home", fill_landing(tmp_path / "landing"), tmp_path / "lineage.jsonl"
    variables = {
        "OPENLINEAGE__TRANSPORT__TYPE": "file",
        "OPENLINEAGE__TRANSPORT__LOG_FILE_PATH": str(file),
        "OPENLINEAGE__TRANSPORT__APPEND": "true",
        "OPENLINEAGE_PARENT_ID": TASK[0],
        "PYTHONPATH": str(ROOT),
        "PSTSTREAM_WORKERS": "2",
    }
    job = [sys.executable, str(ROOT / "jobs" / "micro_batch.py"), f"--home={home}", f"--landing={landing}"]
    done = subprocess.run(job, env=os.environ | variables, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    events = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for event in events:
        check_event(event)
    assert {event["run"]["facets"]["parent"]["run"]["runId"] for event in events} == {TASK[1]}

    ingests = [event for event in events if event["job"]["name"] == "pststream.ingest"]
    assert [event["eventType"] for event in ingests] == ["START", "COMPLETE"] * 2
    assert {event["inputs"][0]["name"] for event in ingests} == {
        str(landing / "objects" / "posts.csv"),
        str(landing / "requests" / "subscribers.jsonl"),
    }
    start, end = (event for event in events if event["job"]["name"] == "pststream.match")
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert ("file", f"{home}/tables/matches") in {(one["namespace"], one["name"]) for one in end["outputs"]}
    facet = end["run"]["facets"]["pststream_ledger"]
    assert (facet["number"], facet["figures"]["matches"]) == (1, len(PAIRS))
    [matches] = [one for one in end["outputs"] if one["name"] == f"{home}/tables/matches"]
    assert matches["outputFacets"]["outputStatistics"]["rowCount"] == len(PAIRS)


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("job", "words", "writes"),
    [
        ("micro_batch", ["--home=/h"], {"objects", "requests", "rejects", "worker_index", "matches"}),
        ("check_balance", ["--home=/h"], set()),
        ("balance", ["local", "--home=/h", "--apply"], {"migrations", "plans", "plan_units", "worker_index"}),
    ],
)
def test_a_task_reports_its_tables(
    airflow_home: Path, monkeypatch: pytest.MonkeyPatch, job: str, words: list[str], writes: set[str]
) -> None:
    from airflow.sdk.lineage import HookLineageCollector

    from pststream.airflow.runners import lineage

    collector = HookLineageCollector()
    monkeypatch.setattr(lineage, "get_hook_lineage_collector", lambda: collector)
    reporter: Any = object()
    lineage.report_tables(job, words, reporter)
    collected = collector.collected_assets
    assert {one.asset.uri for one in collected.outputs} == {f"file:///h/tables/{name}" for name in writes}
    assert collected.inputs


@pytest.mark.airflow
@pytest.mark.parametrize("home", ["h", "/data/h/", "/data/other/../h", "s3://bucket/h", "s3a://bucket/h/"])
def test_airflow_and_the_job_name_a_table_alike(airflow_home: Path, home: str) -> None:
    from pststream.airflow.runners.lineage import home_uri

    namespace, name = dataset_name(Home(home).table("matches"))
    uri = f"file://{name}" if namespace == "file" else f"{namespace}/{name}"
    assert f"{home_uri(home)}/tables/matches" == uri


@pytest.mark.airflow
def test_a_name_that_airflow_refuses_fails_no_task(airflow_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream.airflow.runners import lineage

    def refuses() -> Any:
        raise ValueError("not ASCII")

    monkeypatch.setattr(lineage, "get_hook_lineage_collector", refuses)
    lineage.report_tables("micro_batch", ["--home=/h"], object())
