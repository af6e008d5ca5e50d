"""The pages plugin: every route needs a login and only reads."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pststream.reports.commands.metrics import render_metrics
from pststream.state.home import Home
from pststream.state.tables import TABLES
from tests.browser import CHROMIUM, look_at
from tests.commands import new_home
from tests.dags.landing_folder import fill_landing
from tests.moto_process import free_port
from tests.unit.reports.commands.homes import add_file, thing
from tests.unit.reports.page_home import write_home

pytestmark = pytest.mark.airflow

HOSTILE = "<script>alert('coffee')</script> coffee"
RUN = "20260101T000000000000-pairs-failed"
QUERY = {"id": "hostile", "subscription": "x"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small home with the page of an adjustment."""
    home = write_home(tmp_path_factory.mktemp("plugin") / "home")
    (home / "home.json").write_text("{}")
    Home(home).create_tables(TABLES)
    (home / "pages").mkdir()
    (home / "pages" / "one.html").write_text("<p>one</p>")
    (home / "data_docs" / RUN).mkdir(parents=True)
    (home / "data_docs" / RUN / "index.html").write_text("<p>one</p>")
    (home / "secret.html").write_text("secret")
    return home


@pytest.fixture
def app(airflow_home: Path, home: Path) -> Any:
    """Its pages."""
    from pststream.airflow.pages_app import make_app

    return make_app(str(home), [f"{home}/pages"])


def names_of(metrics: str) -> set[str]:
    return {family.name for family in text_string_to_metric_families(metrics)}


def paths(app: Any) -> list[str]:
    names = {"{name}": "one.html", "{run}": RUN, "{page:path}": "index.html"}
    return [re.sub(r"{\w+(:path)?}", lambda name: names[name[0]], route.path) for route in app.routes]


def test_every_route_needs_a_login_and_only_reads(app: Any) -> None:
    from fastapi.testclient import TestClient

    stranger = TestClient(app)
    docs = f"/data_docs/{RUN}/index.html"
    assert sorted(paths(app)) == ["/", docs, "/metrics", "/object", "/pages/one.html", "/questions", "/subscription"]
    for path in paths(app):
        answer = stranger.get(path, params=QUERY)
        assert answer.status_code == 401 and "hostile" not in answer.text, path
        assert stranger.get(path).status_code in (401, 422) and "one" not in stranger.get(path).text, path
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert stranger.request(method, path).status_code == 405, (method, path)


def test_a_logged_in_user_gets_the_pages(app: Any) -> None:
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.testclient import TestClient

    client = TestClient(app)
    app.dependency_overrides[get_user] = lambda: None
    found = {path: client.get(path, params={"id": "hostile"}) for path in paths(app)}
    assert {path: answer.status_code for path, answer in found.items()} == {
        "/": 200, "/metrics": 200, "/object": 200, "/pages/one.html": 200, "/questions": 200, "/subscription": 404,
        f"/data_docs/{RUN}/index.html": 200,
    }  # fmt: skip
    for path, answer in found.items():
        assert answer.headers["content-type"].startswith("text/plain" if path == "/metrics" else "text/html"), path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("frame-ancestors 'self'"), path
        assert ("default-src 'none'" in policy) == path.startswith("/data_docs"), path
    assert "Balance of the workers" in found["/"].text
    assert names_of(found["/metrics"].text) == names_of(render_metrics(Home(app.state.home))) > {"pststream_batches"}
    assert client.get("/object", params=QUERY).status_code == 404
    assert client.get("/object").status_code == 422
    for name in ("..%2Fsecret.html", "%2e%2e/secret.html", "none.html"):
        assert client.get(f"/pages/{name}").status_code == 404
        assert client.get(f"/data_docs/{RUN}/{name}").status_code == 404
        assert client.get(f"/data_docs/..%2F..%2F/{name}").status_code == 404


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to look with")
def test_the_page_of_a_home_in_a_browser(airflow_home: Path, tmp_path: Path) -> None:
    import uvicorn
    from airflow.api_fastapi.core_api.security import get_user
    from playwright.sync_api import expect, sync_playwright

    from pststream.airflow.pages_app import make_app

    matched = new_home(tmp_path / "home", workers=2)
    matched.run("run", fill_landing(tmp_path / "landing"))
    app = make_app(str(matched.path), [])
    app.dependency_overrides[get_user] = lambda: None
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with sync_playwright() as playwright, playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        ) as browser:  # fmt: skip
            page = browser.new_page()
            page.set_default_timeout(60_000)
            while not server.started:
                time.sleep(0.05)
            look_at(page, f"http://127.0.0.1:{port}/")
            expect(page.get_by_role("heading", name="Balance of the workers")).to_be_visible()
            page.get_by_label("Object id").fill("o1")
            page.keyboard.press("Enter")
            expect(page.get_by_text("matched against all subscriptions")).to_be_visible()
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.deep
def test_a_question_is_answered_by_a_process_that_ends(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.testclient import TestClient

    from pststream.airflow import pages_app
    from pststream.airflow.pages_app import make_app

    # The machine may be slow.
    monkeypatch.setattr("pststream.airflow.page_cache.KEPT_SECONDS", 600.0)
    monkeypatch.setattr(pages_app, "SECONDS", 300.0)
    stored = Home(tmp_path / "asked")
    stored.init()
    add_file(stored, "objects", [thing(1, HOSTILE, text=HOSTILE), thing(2, "far", lon=5.0)])
    app = make_app(stored.path, [])
    app.dependency_overrides[get_user] = lambda: None
    client = TestClient(app)
    asked = {"kind": "knn", "point": "0,0", "k": "1", "keywords": "coffee", "bbox": "", "home": "/etc"}
    answer = client.get("/questions", params=asked)
    assert answer.status_code == 200 and "1 object." in answer.text, answer.text
    assert "<script>alert" not in answer.text and "&lt;script&gt;alert" in answer.text
    bad = client.get("/questions", params=asked | {"k": "0", "keywords": HOSTILE})
    assert bad.status_code == 400 and "k: out_of_range" in bad.text and "<script>alert" not in bad.text
    assert client.get("/questions", params=asked | {"keywords": "a" * 60_000}).status_code == 422
    monkeypatch.setattr(pages_app, "SECONDS", 0.01)
    slow = client.get("/questions", params=asked | {"k": "2"})
    assert slow.status_code == 503 and "took longer than 0.01 s" in slow.text
    assert client.get("/questions", params=asked).text == answer.text, "the same page again for some seconds"


def test_each_home_has_its_pages_and_an_entry_in_the_menu(
    airflow_home: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pststream.airflow.pages_plugin import PSTStreamPages, _view, homes_by_name

    monkeypatch.delenv("PSTSTREAM_HOMES", raising=False)
    monkeypatch.setenv("PSTSTREAM_HOME", str(home))
    [pages] = PSTStreamPages().fastapi_apps
    assert (pages["url_prefix"], pages["app"].state.home) == ("/pststream", str(home))
    assert _view("") == {"name": "PSTStream", "href": "/pststream/", "url_route": "pststream", "destination": "nav"}

    monkeypatch.delenv("PSTSTREAM_HOME")
    monkeypatch.setenv("PSTSTREAM_HOMES", json.dumps({"north": str(home), "south": f"{tmp_path}/south"}))
    north, south, pages = PSTStreamPages().fastapi_apps
    assert (north["url_prefix"], south["url_prefix"]) == ("/pststream/north", "/pststream/south")
    assert (north["app"].state.home, south["app"].state.home) == (str(home), f"{tmp_path}/south")
    assert pages["url_prefix"] == "/pststream"
    assert pages["app"].state.folders == sorted([f"{home}/pages", f"{tmp_path}/south/pages"])
    assert list(homes_by_name()) == ["north", "south"], "the menu has no home that nobody named"
    assert _view("north")["href"] == "/pststream/north/"
    for bad in ("pages", "questions", "metrics", "a/b", ""):
        monkeypatch.setenv("PSTSTREAM_HOMES", json.dumps({bad: "/h"}))
        with pytest.raises(ValueError, match="is not a name"):
            homes_by_name()


@pytest.mark.deep
def test_loading_the_plugin_loads_no_reports(airflow_home: Path) -> None:
    """Every process of Airflow loads plugins; the reports bring Arrow, which only the API server needs."""
    code = "import sys, pststream.airflow.pages_plugin as plugin; plugin.PSTStreamPages(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=True)
    assert not {"pststream.reports", "pyarrow", "pststream.airflow.pages_app"} & set(done.stdout.split())
