"""The URL of an adjustment page is empty until the page is written."""

from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]


def test_a_page_has_a_url_once_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream.airflow.runners.engine_choice import file_name
    from pststream.airflow.tasks.plan_change import page_url

    page = tmp_path / f"{file_name('manual__2026-03-01T00:00:00+00:00/../x')}.html"
    assert page.parent == tmp_path and page.name == "manual__2026-03-01T00-00-00-00-00-..-x.html"
    task = SimpleNamespace(page=str(page), application_args=[f"--home={tmp_path}"], aws_conn_id=None)
    assert page_url(task) == ""
    page.touch()
    assert page_url(task).endswith(f"/pststream/pages/{page.name}")
    monkeypatch.setenv("PSTSTREAM_PAGES_URL", "https://pages.example")
    assert page_url(task) == f"https://pages.example/{page.name}"


def test_the_pages_of_a_home_in_a_bucket_are_in_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the job that applies a proposal finds it on whatever machine it runs."""
    from pststream.airflow.dag_options import DagOptions
    from pststream.airflow.tasks.plan_change import run_file

    options = DagOptions(home="s3://city/home/")
    assert run_file(options, ".npz").startswith("s3://city/home/pages/")
    monkeypatch.setenv("PSTSTREAM_PAGES", "s3://city/elsewhere")
    assert options.pages == "s3://city/elsewhere"
