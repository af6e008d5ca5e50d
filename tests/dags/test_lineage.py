"""Airflow's own OpenLineage listener, and the job's own events, in one file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dags.conftest import DAGS
from tests.dags.landing import PAIRS, fill

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

RUN = """
import sys
from airflow.dag_processing.dagbag import DagBag
folder, home, landing = sys.argv[1:]
DagBag(dag_folder=folder).dags["micro_batch"].test(run_conf={"home": home, "landing": landing})
"""


def test_a_run_tells_its_tasks_their_tables_and_the_ledgers_entries(airflow_home: Path, tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "lineage.jsonl"
    variables = {
        "OPENLINEAGE__TRANSPORT__TYPE": "file",
        "OPENLINEAGE__TRANSPORT__LOG_FILE_PATH": str(file),
        "OPENLINEAGE__TRANSPORT__APPEND": "true",
        "PYTHONPATH": os.pathsep.join([str(DAGS), str(DAGS.parent)]),
        "PSTSTREAM_WORKERS": "2",
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",
    }
    command = [sys.executable, "-c", RUN, str(DAGS), str(home), str(fill(tmp_path / "landing"))]
    subprocess.run(command, env=os.environ | variables, check=True, capture_output=True, timeout=500)
    events = [json.loads(line) for line in file.read_text("utf-8").splitlines()]

    task = [event for event in events if event["job"]["name"] == "micro_batch.match"]
    assert [event["eventType"] for event in task] == ["START", "COMPLETE"]
    written = {(one["namespace"], one["name"]) for one in task[1]["outputs"]}
    assert {("file", f"{home}/tables/objects"), ("file", f"{home}/tables/matches")} <= written

    ingests = [event for event in events if event["job"]["name"] == "pststream.ingest"]
    assert [event["eventType"] for event in ingests] == ["START", "COMPLETE"] * 2
    assert {event["inputs"][0]["name"] for event in ingests} == {
        str(tmp_path / "landing" / "objects" / "posts.csv"),
        str(tmp_path / "landing" / "requests" / "subscribers.jsonl"),
    }
    start, done = (event for event in events if event["job"]["name"] == "pststream.match")
    assert (start["eventType"], done["eventType"]) == ("START", "COMPLETE")
    assert done["run"]["facets"]["pststream"]["number"] == 1
    assert done["run"]["facets"]["pststream"]["figures"]["matches"] == len(PAIRS)
    assert done["run"]["facets"]["parent"]["run"]["runId"] == task[1]["run"]["runId"]

    told = [event for event in events if event["job"]["name"] == "micro_batch.deliver"]
    assert f"{home}/tables/matches" in {one["name"] for one in told[-1]["inputs"]}
