"""The DAGs and the Airflow pages work on a home in a bucket."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pststream.reports.pages import airflow_views
from pststream.state import ledger_tables
from pststream.state.home import Home
from tests.bad_store import Uploader
from tests.bucket_home import BucketHome, use
from tests.dags.dag_runs import FinishedRun
from tests.dags.landing_folder import ACCEPTED, PAIRS, fill_landing
from tests.moto_process import moto_server

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketHome]:
    """An address in an empty bucket."""
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("PSTSTREAM_SIGMA", "100000")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    with moto_server() as url:
        address = use(url, monkeypatch)
        Uploader(url).new_bucket()
        yield BucketHome(address, tmp_path)


def test_a_day_of_a_home_in_a_bucket(dagbag: Any, home: BucketHome, tmp_path: Path) -> None:
    fill_landing(tmp_path / "landing")
    place = {"home": home.path}
    ran = FinishedRun(dagbag.dags["pststream_micro_batch"], place | {"landing": str(tmp_path / "landing")})
    assert ran.state == "success"
    assert (ran.xcom("match")["accepted"], ran.xcom("match")["matches"]) == (ACCEPTED, len(PAIRS))
    repartitioned = FinishedRun(dagbag.dags["pststream_repartition"], place | {"planner": "grid", "workers": 3})
    assert repartitioned.state == "success" and repartitioned.xcom("apply")["plan_version"] == 2
    for name in ("check_tables", "maintain", "health"):
        assert FinishedRun(dagbag.dags[f"pststream_{name}"], place).state == "success", name
    assert [(object_id, subscription_id) for object_id, _, subscription_id in home.exported()] == PAIRS
    (object_id, subscription_id), *_ = PAIRS
    page = airflow_views.overview_page(home.path)
    assert page.status == 200 and "Balance of the workers" in page.text
    assert object_id in airflow_views.object_page(home.path, object_id, subscription_id).text
    assert subscription_id in airflow_views.subscription_page(home.path, subscription_id).text
    assert ledger_tables.version(Home(home.path), "plans") >= 2
