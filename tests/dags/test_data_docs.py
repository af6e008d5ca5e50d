"""A file and pairs do not meet the suites of a home: the tasks link Data Docs, which open in the pages of the home."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Home, new_home
from tests.dags.dag_runs import FinishedRun
from tests.dags.landing_folder import fill_landing

pytestmark = [pytest.mark.airflow, pytest.mark.deep]

LONG_TEXTS = {"type": "expect_column_value_lengths_to_be_between", "kwargs": {"column": "text", "min_value": 13}}
OTHER_IDS = {"type": "expect_column_values_to_not_be_in_set", "kwargs": {"column": "object_id", "value_set": ["o3"]}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with suites, which Airflow's pages show."""
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.delenv("PSTSTREAM_HOMES", raising=False)
    monkeypatch.setenv("PSTSTREAM_HOME", str(tmp_path / "home"))
    home = new_home(tmp_path / "home", engine="local")
    for folder, expectation in {"landed_objects": LONG_TEXTS, "pairs": OTHER_IDS}.items():
        file = home.path / "expectations" / folder / "mine.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"expectations": [expectation]}), "utf-8")
    return home


def link_of(run: FinishedRun, task: str) -> str:
    """Return the URL behind the button *Data Docs* of a task."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        wanted = {"run_id": run.run_id, "task_id": task, "key": "_link_DataDocsLink"}
        return str(XComModel.deserialize_value(session.query(XComModel).filter_by(**wanted).one()))


def opened(home: Home, url: str) -> str:
    """Open a page of the home as a user who is logged in; return its text."""
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.testclient import TestClient

    from pststream.airflow.pages_app import make_app

    app = make_app(str(home.path), [])
    path = url.partition("/pststream")[2]
    assert TestClient(app).get(path).status_code == 401
    app.dependency_overrides[get_user] = lambda: None
    answer = TestClient(app).get(path)
    assert answer.status_code == 200 and "script-src" not in answer.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert TestClient(app).get(path.replace("index", "none")).status_code == 404
    return answer.text


def test_tasks_link_the_data_docs_of_what_the_suites_refuse(dagbag: Any, home: Home, tmp_path: Path) -> None:
    landing = fill_landing(tmp_path / "landing")
    form = {"home": str(home.path), "landing": str(landing)}
    held = FinishedRun(dagbag.dags["pststream_micro_batch"], form)
    assert held.state == "success", "other files go on"
    (page,) = held.xcom("match")["data_docs"]
    assert Path(page).is_file() and "landed_objects-failed" in page
    assert "mine" in opened(home, link_of(held, "match"))
    (hold,) = home.run("quarantine", "list")["quarantine"]
    assert "suite mine: expect_column_value_lengths_to_be_between" in hold["reasons"][0]
    home.run("quarantine", "release", str(hold["hold_id"]))
    assert home.match()["matches"] == 4
    checked = FinishedRun(dagbag.dags["pststream_check_tables"], {"home": str(home.path)})
    assert checked.states == {"check": "success", "verdict": "failed"}
    assert Path(checked.xcom("check")["data_docs"][0]).is_file()
    assert "mine" in opened(home, link_of(checked, "check"))


def test_a_link_leads_to_the_pages_of_the_home_and_to_the_failed_expectation(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pststream.airflow.tasks.data_docs import data_docs_url

    homes = {"north": f"{tmp_path}/north", "south": "s3a://bucket/south/"}
    monkeypatch.setenv("PSTSTREAM_HOMES", json.dumps(homes))
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/")
    start = "https://airflow.example.com/pststream"
    passed, failed = "data_docs/1-landed_requests-passed/index.html", "data_docs/2-landed_objects-failed/index.html"
    assert data_docs_url([f"{tmp_path}/north/{failed}", f"{tmp_path}/north/{passed}"]) == f"{start}/north/{failed}"
    assert data_docs_url([f"s3://bucket/south/{passed}"]) == f"{start}/south/{passed}"
    assert data_docs_url([]) == data_docs_url([f"{tmp_path}/elsewhere/{failed}"]) == ""
