"""The DAGs and the Airflow pages work on a home in a bucket, whose keys and endpoint are those of a connection."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from pststream.pipeline.upkeep.maintain import delete_old_outcomes
from pststream.reports.pages import airflow_views
from pststream.state.home import Home
from pststream.storage.registry import files_at
from pststream.tables.delta_tables import table_version
from tests.bad_store import Uploader
from tests.bucket_home import BucketHome, use
from tests.dags.dag_runs import FinishedRun, bag_of
from tests.dags.landing_folder import ACCEPTED, PAIRS, fill_landing
from tests.lean_jvm import LEAN
from tests.moto_process import CREDENTIALS, s3_server

CONNECTION = "cloud"

pytestmark = [pytest.mark.airflow, pytest.mark.deep, pytest.mark.timeout(900)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketHome]:
    """An address in an empty bucket."""
    monkeypatch.setenv("PSTSTREAM_WORKERS", "2")
    monkeypatch.setenv("PSTSTREAM_SIGMA", "100000")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", LEAN)
    with s3_server() as url:
        address = use(url, monkeypatch)
        Uploader(url).new_bucket()
        yield BucketHome(address, tmp_path)


@pytest.fixture
def dags(tmp_path: Path, home: BucketHome, airflow_home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The DAGs with a connection of type `aws`."""
    keys = {"login": CREDENTIALS["AWS_ACCESS_KEY_ID"], "password": CREDENTIALS["AWS_SECRET_ACCESS_KEY"]}
    extra = {"region_name": "eu-north-1", "endpoint_url": os.environ["AWS_ENDPOINT_URL"]}
    extra |= {"homes": home.path}
    monkeypatch.setenv("AIRFLOW__PSTSTREAM__ALLOWED_HOMES", json.dumps([home.path]))
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps({"conn_type": "aws", **keys, "extra": extra}))
    (tmp_path / "dags").mkdir()
    text = f'from pststream.airflow import make_dags\n\nmake_dags(aws_conn_id="{CONNECTION}")\n'
    (tmp_path / "dags" / "of_a_bucket.py").write_text(text, "utf-8")
    made: dict[str, Any] = bag_of(tmp_path / "dags", monkeypatch).dags
    return made


def test_a_day_of_a_home_in_a_bucket(
    dags: dict[str, Any], home: BucketHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_landing(tmp_path / "landing")
    place = {"home": home.path}
    with monkeypatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
            patch.delenv(name)
        ran = FinishedRun(dags["pststream_micro_batch"], place | {"landing": str(tmp_path / "landing")})
        assert ran.state == "success"
        assert (ran.xcom("match")["accepted"], ran.xcom("match")["matches"]) == (ACCEPTED, len(PAIRS))
        repartitioned = FinishedRun(dags["pststream_repartition"], place | {"planner": "grid", "workers": 3})
        assert repartitioned.state == "success" and repartitioned.xcom("apply")["plan_version"] == 2
        for name in ("check_tables", "maintain", "health"):
            assert FinishedRun(dags[f"pststream_{name}"], place).state == "success", name
    assert [(object_id, subscription_id) for object_id, _, subscription_id in home.exported()] == PAIRS
    (object_id, subscription_id), *_ = PAIRS
    page = airflow_views.overview_page(home.path)
    assert page.status == 200 and "Balance of the workers" in page.text
    assert object_id in airflow_views.object_page(home.path, object_id, subscription_id).text
    assert subscription_id in airflow_views.subscription_page(home.path, subscription_id).text
    assert table_version(Home(home.path).table("plans")) >= 2
    outcome = f"{names.OUTCOMES}/d/r/match-1.json"
    files_at(home.path).write(outcome, b"{}")
    assert [delete_old_outcomes(Home(home.path), days) for days in (1, -1)] == [0, 1]
    assert not files_at(home.path).exists(outcome)
