"""Run `make airflow` on a free port and trigger the DAGs through the REST API with values of their forms."""

import contextlib
import ipaddress
import json
import re
import shutil
import stat
import urllib.error
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from playwright.sync_api import expect, sync_playwright

from tests.airflow_database import empty_database
from tests.browser import CHROMIUM, look_at
from tests.commands import Home
from tests.dags.landing_folder import ACCEPTED, PAIRS, REJECTED, fill_landing
from tests.e2e.airflow_api import ROOT, RUN, Airflow, processes_of, standalone, wait_for
from tests.spark_cluster import cluster_for_drivers, connection_for_drivers

PASSWORDS = "airflow/simple_auth_manager_passwords.json.generated"

QUESTIONS = ("questions", "questions?kind=knn&point=0.5,0.5&k=3", "questions?kind=knn&k=0")
"""Pages of a question: its form, an answer, a refusal."""

SECRETS = {name: f"secret-of-{name}" for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HOOK_SECRET")}

pytestmark = [pytest.mark.deep, pytest.mark.airflow, pytest.mark.e2e, pytest.mark.timeout(1500)]


ON_CLUSTER = """
from datetime import timedelta

from pststream.airflow import PSTStreamDag

PSTStreamDag(
    home="{0}/other-home",
    landing="{0}/landing",
    prefix="other_",
    schedule=None,
    pool="pststream_spark",
    spark_conn_id="on_cluster",
    default_args={{"driver_memory": "512m", "retry_delay": timedelta(seconds=1)}},
)
"""
"""A DAG in a folder of its own, whose drivers run on a cluster that only one test starts."""


@pytest.fixture(scope="module")
def on_cluster() -> dict[str, Any]:
    """The connection of ON_CLUSTER."""
    return connection_for_drivers()


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, on_cluster: dict[str, Any]) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("standalone")
    fill_landing(folder / "landing")
    (folder / "airflow").mkdir(mode=0o755)  # as an earlier version made it
    shutil.copy(empty_database(tmp_path_factory.getbasetemp()), folder / "airflow")
    (folder / "dags").mkdir()
    (folder / "dags" / "on_cluster.py").write_text(ON_CLUSTER.format(folder), "utf-8")
    kind = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [
        {"name": path.parent.name, "classpath": kind, "kwargs": {"path": str(path)}}
        for path in (ROOT / "dags", folder / "dags")
    ]
    settings = {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "AIRFLOW_CONN_ON_CLUSTER": json.dumps(on_cluster),
        "PSTSTREAM_WORKERS": "2",
    }
    with standalone(folder, settings | SECRETS) as here:
        yield here


def test_a_bad_value_of_a_form_is_refused_before_any_task_runs(airflow: Airflow) -> None:
    airflow.turn_on("pststream_repartition")
    for form in ({"planner": "voronoi"}, {"workers": 0}, {"dry_run": "yes"}):
        with pytest.raises(urllib.error.HTTPError) as refused:
            airflow.trigger("pststream_repartition", form)
        assert 400 <= refused.value.code < 500
        assert next(iter(form)) in refused.value.read().decode()
    assert airflow.runs("pststream_repartition") == []


def test_only_the_own_user_reads_what_airflow_writes(airflow: Airflow) -> None:
    assert stat.filemode((airflow.folder / "airflow").stat().st_mode) == "drwx------"
    for name in (PASSWORDS, "airflow/airflow.cfg", "airflow/standalone.log"):
        assert stat.filemode((airflow.folder / name).stat().st_mode) == "-rw-------", name


def test_the_scheduler_runs_a_micro_batch_with_a_form_value(airflow: Airflow) -> None:
    airflow.turn_on("pststream_micro_batch")
    run = airflow.trigger("pststream_micro_batch", {"max_objects": 3})
    assert airflow.end_of("pststream_micro_batch", run) == "success", airflow.log("pststream_micro_batch", run, "match")
    states = airflow.states("pststream_micro_batch", run)
    assert (states["match"], states["publish"], states["check_rejects"]) == ("success", "success", "success")
    summary = airflow.xcom("pststream_micro_batch", run, "match")
    assert (summary["accepted"], summary["rejected"]) == (ACCEPTED, REJECTED)
    assert (summary["batches"], summary["matches"]) == (2, len(PAIRS))
    [event] = [event for event in airflow.events("pststream_micro_batch") if "matches" in event["uri"]]
    assert event["extra"]["table_version"] == summary["table_version"]
    assert event["uri"].rstrip("/") == "pststream://matches"
    assert "batch 2" in airflow.log("pststream_micro_batch", run, "match")
    pairs = [(object_id, subscription_id) for object_id, _, subscription_id in Home(airflow.folder / "home").exported()]
    assert pairs == PAIRS
    assert event["extra"]["table"] == f"file://{airflow.folder}/home/tables/matches"


def test_the_batch_ran_on_the_server_that_started_with_airflow(airflow: Airflow) -> None:
    [pages] = re.findall(
        r"^Spark +(http://127\.0\.0\.1:\d+)$", (airflow.folder / "output.txt").read_text("utf-8"), re.M
    )
    [application] = json.loads(airflow.page(f"{pages}/api/v1/applications", logged_in=False))
    jobs = json.loads(airflow.page(f"{pages}/api/v1/applications/{application['id']}/jobs", logged_in=False))
    assert jobs and {job["status"] for job in jobs} == {"SUCCEEDED"}
    [settings] = [json.loads(airflow.page(f"{pages}/api/v1/applications/{application['id']}/environment", False))]
    assert ["spark.scheduler.mode", "FAIR"] in settings["sparkProperties"]


def test_a_question_of_a_form_is_answered_on_a_page(airflow: Airflow) -> None:
    dag, task = "pststream_questions", "ask"
    airflow.turn_on(dag)
    with pytest.raises(urllib.error.HTTPError) as refused:
        airflow.trigger(dag, {"kind": "knn", "lon": 0.5, "lat": 91, "k": 2})
    assert 400 <= refused.value.code < 500 and "lat" in refused.value.read().decode()
    run = airflow.trigger(dag, {"kind": "knn", "lon": 0.5, "lat": 0.55, "k": 2, "keywords": "coffee"})
    assert airflow.end_of(dag, run) == "success", airflow.log(dag, run, task)
    assert airflow.states(dag, run) == {"ask": "success", "answer_files": "skipped", "publish_answers": "skipped"}
    answer = airflow.xcom(dag, run, task)
    assert (answer["kind"], answer["rows"], answer["more"]) == ("knn", 2, False)
    assert airflow.links(dag, run, task) == {"Answer": answer["page"]}
    page = airflow.page(answer["page"])
    assert "2 objects." in page and "cheap" in page and "o5" in airflow.log(dag, run, task)


def test_lineage_is_told_to_a_file(airflow: Airflow) -> None:
    lines = (airflow.folder / "airflow" / "lineage.jsonl").read_text("utf-8").splitlines()
    events = [(event["eventType"], event["job"]["name"]) for event in map(json.loads, lines)]
    assert any(state == "COMPLETE" and "match" in job for state, job in events), events


def test_the_page_is_in_the_menu_and_closed_to_strangers(airflow: Airflow) -> None:
    views = [view for plugin in airflow.call("GET", "/api/v2/plugins")["plugins"] for view in plugin["external_views"]]
    [entry] = [view for view in views if view["name"] == "PSTStream"]
    assert (entry["href"], entry["destination"]) == ("/pststream/", "nav")
    routes = {
        "/pststream/": "Balance of the workers",
        "/pststream/object?id=o1": "matched against all subscriptions",
        "/pststream/object?id=o1&subscription=s1": "Why it matched or not",
        "/pststream/subscription?id=s1": "Definition",
        "/pststream/questions": "Map to draw a question on",
        "/pststream/questions?kind=range&bbox=0,0,1,1&keywords=coffee": "3 objects.",
        "/pststream/metrics": "pststream_batches_total 2.0",
        "/pststream/pages/none.html": "",
    }
    for route, expected in routes.items():
        with pytest.raises(urllib.error.HTTPError) as refused:
            airflow.page(airflow.url + route, logged_in=False)
        assert refused.value.code == 401, route
        if expected:
            assert expected in airflow.page(airflow.url + route), route
    for route in ("/pststream/pages/none.html", "/pststream/subscription?id=nobody", "/pststream/object?id=nothing"):
        with pytest.raises(urllib.error.HTTPError) as unknown:
            airflow.page(airflow.url + route)
        assert unknown.value.code == 404, route


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to look with")
def test_a_person_logs_in_looks_and_looks_up(airflow: Airflow) -> None:
    [(user, password)] = json.loads((airflow.folder / PASSWORDS).read_text("utf-8")).items()
    with sync_playwright() as playwright, playwright.chromium.launch(
        executable_path=CHROMIUM, args=["--no-sandbox"]
    ) as browser:  # fmt: skip
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(airflow.url)
        page.locator("[name=username]").fill(user)
        page.locator("[name=password]").fill(password)
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "login" not in url)
        page.goto(f"{airflow.url}/plugin/pststream")
        frame = page.frame_locator("iframe[title=PSTStream]")
        expect(frame.get_by_role("heading", name="Balance of the workers")).to_be_visible(timeout=60_000)
        frame.get_by_label("Object id").fill("o1")
        frame.get_by_label("to see why it matched or not").fill("s2")
        page.keyboard.press("Enter")
        expect(frame.get_by_text("the object lies outside the region")).to_be_visible(timeout=60_000)
        for path in ("", "object?id=o1&subscription=s1", "subscription?id=s1", "object?id=none", *QUESTIONS):
            look_at(page, f"{airflow.url}/pststream/{path}")


def test_a_deferred_task_submits_its_job_once(airflow: Airflow, on_cluster: dict[str, Any]) -> None:
    """No process of the task waits for the driver, which works without executors on the only node of a cluster."""
    dag, home = "other_micro_batch", Home(airflow.folder / "other-home")
    airflow.turn_on(dag)
    with cluster_for_drivers(airflow.folder / "cluster", on_cluster, "node", PSTSTREAM_ENGINE="local") as cluster:
        run = airflow.trigger(dag, {})
        wait_for(lambda: airflow.states(dag, run)["match"] == "deferred", RUN, "the submission")
        assert airflow.end_of(dag, run) == "success", airflow.log(dag, run, "match")
        assert len(cluster.drivers) == 1
    tasks = airflow.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
    assert {task["try_number"] for task in tasks if task["task_id"] == "match"} == {1}
    assert airflow.xcom(dag, run, "match")["matches"] == len(PAIRS)
    assert home.run("plans", "show")["workers"] == 2, "the driver has the environment of the task"
    assert [(object_id, subscription_id) for object_id, _, subscription_id in home.exported()] == PAIRS


def test_no_process_listens_beyond_loopback(airflow: Airflow) -> None:
    listening = {
        connection.laddr.ip
        for process in processes_of(psutil.Process())
        for connection in connections_of(process)
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening and all(is_loopback(ip) for ip in listening)


def is_loopback(ip: str) -> bool:
    """Whether an address is loopback, or one of IPv4 that a socket of IPv6 shows as ::ffff:127.0.0.1."""
    address = ipaddress.ip_address(ip)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def connections_of(process: psutil.Process) -> list[Any]:
    with contextlib.suppress(psutil.Error):  # it ended in the meantime
        return process.net_connections("inet")
    return []


def test_no_secret_is_in_a_log(airflow: Airflow) -> None:
    logs = [
        file for file in (airflow.folder / "airflow").rglob("*") if file.is_file() and file.suffix in (".log", ".out")
    ]
    assert len(logs) > 5 and sum(file.stat().st_size for file in logs) > 10_000
    leaks = [
        (file.name, name) for file in logs for name, secret in SECRETS.items() if secret.encode() in file.read_bytes()
    ]
    assert leaks == []
