"""The pages plugin: every route needs a login and only reads."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.reports.page_home import write_home

pytestmark = pytest.mark.airflow

QUERY = {"id": "hostile", "subscription": "x"}


@pytest.fixture(scope="module")
def plugin(airflow_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The module of the pages, on a small home."""
    home = write_home(tmp_path_factory.mktemp("plugin") / "home")
    (home / "home.json").write_text("{}")
    (home / "pages").mkdir()
    (home / "pages" / "one.html").write_text("<p>one</p>")
    (home / "secret.html").write_text("secret")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PSTSTREAM_HOME", str(home))
        from pststream.airflow import pages_app

        yield pages_app


def paths(plugin: ModuleType) -> list[str]:
    return [route.path.replace("{name}", "one.html") for route in plugin.app.routes]


def test_every_route_needs_a_login_and_only_reads(plugin: ModuleType) -> None:
    from fastapi.testclient import TestClient

    stranger = TestClient(plugin.app)
    assert sorted(paths(plugin)) == ["/", "/object", "/pages/one.html", "/subscription"]
    for path in paths(plugin):
        answer = stranger.get(path, params=QUERY)
        assert answer.status_code == 401 and "hostile" not in answer.text, path
        assert stranger.get(path).status_code in (401, 422) and "one" not in stranger.get(path).text, path
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert stranger.request(method, path).status_code == 405, (method, path)


def test_a_logged_in_user_gets_the_pages(plugin: ModuleType) -> None:
    from fastapi.testclient import TestClient

    client = TestClient(plugin.app)
    plugin.app.dependency_overrides[plugin.get_user] = lambda: None
    try:
        found = {path: client.get(path, params={"id": "hostile"}) for path in paths(plugin)}
        assert {path: answer.status_code for path, answer in found.items()} == {
            "/": 200, "/object": 200, "/pages/one.html": 200, "/subscription": 404,
        }  # fmt: skip
        for path, answer in found.items():
            assert answer.headers["content-type"].startswith("text/html"), path
            assert answer.headers["content-security-policy"] == "frame-ancestors 'self'", path
        assert "Balance of the workers" in found["/"].text
        assert client.get("/object", params=QUERY).status_code == 404
        assert client.get("/object").status_code == 422
        for name in ("..%2Fsecret.html", "%2e%2e/secret.html", "none.html"):
            assert client.get(f"/pages/{name}").status_code == 404
    finally:
        plugin.app.dependency_overrides.clear()


def test_the_plugin_serves_the_pages(plugin: ModuleType) -> None:
    from pststream.airflow.pages_plugin import PSTStreamPages

    [pages] = PSTStreamPages().fastapi_apps
    assert pages["app"] is plugin.app
    assert PSTStreamPages.external_views[0]["href"].endswith(f"{pages['url_prefix']}/")


def test_loading_the_plugin_loads_no_reports(airflow_home: Path) -> None:
    """Every process of Airflow loads plugins; the reports bring Arrow, which only the API server needs."""
    code = "import sys, pststream.airflow.pages_plugin as plugin; plugin.PSTStreamPages(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=True)
    assert not {"pststream.reports", "pyarrow", "pststream.airflow.pages_app"} & set(done.stdout.split())
