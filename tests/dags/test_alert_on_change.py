"""A check of `health` alerts once when it begins to fail, and once when it passes again; the state is in the home."""

import datetime as dt
import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pststream.reports.commands.status import status_at
from pststream.state.home import Home
from tests.unit.reports.commands.homes import add_batch, add_file, add_plan, at, halves, thing

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]

EVERY_MINUTES = 5
LIMIT_SECONDS = 300


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with a plan, where nothing is pending."""
    home = Home(tmp_path / "home")
    home.init()
    add_plan(home, halves())
    return home


class Run:
    """One run of the task `lag` at a minute of the stream: its check on the figures of the home, and its callbacks.

    A new DAG is made for each, as each run of a task is a new process.
    """

    def __init__(self, home: str, minute: float, **options: Any) -> None:
        from pststream.airflow import make_dag

        self.task = make_dag("health", home=home, **options).get_task("lag")
        ti = SimpleNamespace(dag_id="health", task_id="lag", run_id=f"at-{minute}", try_number=1, log_url="http://log")
        self.context: dict[str, Any] = {"ti": ti, "task": self.task, "params": {}}
        self.home, self.now = home, at(minute)

    def check(self) -> None:
        """Run the check, then the callbacks that Airflow would call."""
        from pststream.airflow.dags.health import Unhealthy, check_lag

        waiting = status_at(Home(self.home), self.now)["lag"]["seconds"]
        try:
            check_lag(waiting, None, LIMIT_SECONDS)
        except Unhealthy as error:
            self.fail(error)
        else:
            self.succeed()

    def fail(self, error: Exception) -> None:
        for callback in self.task.on_failure_callback:
            callback(self.context | {"exception": error})

    def succeed(self) -> None:
        for callback in self.task.on_success_callback:
            callback(self.context)


@pytest.fixture
def alerts(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """Return the first words of the logged alerts."""
    from pststream.airflow.alerts import log

    caplog.set_level(logging.INFO, log.name)
    yield lambda: [record.message.split(":")[0] for record in caplog.records if record.name == log.name]


@pytest.mark.deep
def test_a_fault_of_an_hour_gives_one_alert_and_one_recovery(home: Home, alerts: Any) -> None:
    sent: list[tuple[str, str]] = []
    options = {
        "on_failure": lambda context: sent.append((context["ti"].run_id, context["alert"])),
        "on_recovery": lambda context: sent.append((context["ti"].run_id, context["alert"])),
    }
    for minute in range(-10, 0, EVERY_MINUTES):
        Run(home.path, minute, **options).check()
    add_file(home, "objects", [thing(1, "late")])  # at minute 0; the fault is that no batch runs for an hour
    for minute in range(0, 65, EVERY_MINUTES):
        Run(home.path, minute, **options).check()
    assert alerts() == ["FAILED"] and len(sent) == 1
    add_batch(home, minutes=62)
    for minute in range(65, 90, EVERY_MINUTES):
        Run(home.path, minute, **options).check()
    assert alerts() == ["FAILED", "RECOVERED"]
    [(failed_at, failed), (recovered_at, recovered)] = sent
    assert (failed_at, recovered_at) == ("at-10", "at-65"), "five minutes of lag are allowed"
    assert "Lagging" in failed and "remedy:" in failed and "Lagging: the oldest file" in recovered

    add_file(home, "objects", [thing(1, "later")])
    Run(home.path, 100, **options).check()
    assert alerts() == ["FAILED", "RECOVERED", "FAILED"], "the next fault is another one"


def test_the_state_is_a_file_of_the_home(home: Home) -> None:
    file = Path(home.path, "health", "health.lag.json")
    Run(home.path, 0).succeed()
    assert not file.exists(), "a check that never failed has no state"
    Run(home.path, 5).fail(ValueError("x"))
    state = json.loads(file.read_text())
    assert (state["state"], state["why"]) == ("failing", "ValueError: x")
    assert dt.datetime.fromisoformat(state["since"]).tzinfo
    Run(home.path, 10).succeed()
    assert json.loads(file.read_text())["state"] == "passing"
    file.write_text("{")
    Run(home.path, 15).fail(ValueError("y"))
    assert json.loads(file.read_text())["why"] == "ValueError: y", "a damaged file is replaced"


def sink(name: str, state: str = "ok", dead: int = 0) -> dict[str, Any]:
    return {"sink": name, "state": state, "reason": "closed", "batches_left": 1, "dead": dead}


def run_check(run: Run, check: Any, *figures: Any) -> None:
    """Run a check, then the callbacks that Airflow would call."""
    from pststream.airflow.dags.health import Unhealthy

    try:
        check(*figures)
    except Unhealthy as error:
        run.fail(error)
    else:
        run.succeed()


@pytest.fixture
def changes(home: Home, caplog: pytest.LogCaptureFixture) -> Any:
    """Return a function that runs a check and returns the messages of its run: state and what changed."""
    from pststream.airflow.alerts import log
    from pststream.airflow.dags import health

    caplog.set_level(logging.INFO, log.name)

    def run(check: str, *figures: Any) -> list[tuple[str, str]]:
        caplog.clear()
        run_check(Run(home.path, 0), getattr(health, check), *figures)
        sent = [record.message.splitlines() for record in caplog.records if record.name == log.name]
        return [(lines[0].partition(":")[0], lines[1].partition(":")[2].strip()) for lines in sent]

    return run


def test_each_sink_that_fails_has_an_alert_and_a_recovery(changes: Any) -> None:
    steps = [
        ((sink("a", dead=1), sink("b")), [("FAILED", "dead letters of sink a")]),
        ((sink("a", dead=2), sink("b")), []),
        ((sink("a", dead=2), sink("b", "down")), [("FAILED", "sink b")]),
        ((sink("a", "down", dead=2), sink("b", "failed")), [("FAILED", "sink a")]),
        ((sink("b", "down"), sink("c", "down")), [
            ("FAILED", "sink c"), ("RECOVERED", "dead letters of sink a; sink a"),
        ]),
        ((sink("a"), sink("b", "behind"), sink("c")), [("RECOVERED", "sink b; sink c")]),
        ((sink("a"), sink("b", "down"), sink("c")), [("FAILED", "sink b")]),
    ]  # fmt: skip
    for sinks, expected in steps:
        assert changes("check_sinks", list(sinks), 0) == expected, sinks


def test_each_quarantined_file_has_an_alert_and_a_recovery(changes: Any) -> None:
    assert changes("check_quarantine", [1]) == [("FAILED", "quarantined file 1")]
    assert changes("check_quarantine", [1]) == []
    assert changes("check_quarantine", [1, 2]) == [("FAILED", "quarantined file 2")]
    assert changes("check_quarantine", [2, 3]) == [
        ("FAILED", "quarantined file 3"),
        ("RECOVERED", "quarantined file 1"),
    ], "as many as before"
    [(_, listed)] = changes("check_quarantine", list(range(2, 44)))
    assert listed.endswith("quarantined file 13; 30 more")
    [(state, _)] = changes("check_quarantine", [])
    assert state == "RECOVERED"


def test_an_error_of_the_check_itself_says_nothing_of_its_parts(home: Home, changes: Any, alerts: Any) -> None:
    changes("check_sinks", [sink("a", "down")], 0)
    Run(home.path, 1).fail(KeyError("deliveries"))
    assert alerts() == ["FAILED", "FAILED"]
    [(state, _)] = changes("check_sinks", [sink("a", "down")], 0)
    assert state == "RECOVERED", "the check itself"
    state = json.loads(Path(home.path, "health", "health.lag.json").read_text())
    assert state["failing"].keys() == {"sink a"} and "closed" in state["why"]


def test_an_alert_that_was_not_sent_is_sent_by_the_next_run(home: Home, alerts: Any) -> None:
    calls: list[str] = []

    def pager(context: Any) -> None:
        calls.append(context["ti"].run_id)
        if len(calls) < 3:
            raise ConnectionError("the pager does not answer")

    others: list[str] = []
    options = {"on_failure": [pager, lambda context: others.append("called")]}
    for minute in range(5):
        Run(home.path, minute, **options).fail(ValueError("x"))
    assert calls == ["at-0", "at-1", "at-2"] and len(others) == 3


def test_without_a_home_each_run_alerts_and_nothing_is_created(tmp_path: Path, alerts: Any) -> None:
    for minute in range(2):
        Run(f"{tmp_path}/nowhere", minute).fail(ValueError("no home"))
    assert alerts() == ["FAILED"] * 2
    assert not (tmp_path / "nowhere").exists()


def test_an_alert_is_sent_though_its_state_is_out_of_reach(home: Home, alerts: Any) -> None:
    for minute in range(2):
        Run(home.path, minute, aws_conn_id="missing").fail(ValueError("x"))
    assert alerts() == ["FAILED"] * 2


@pytest.fixture
def receiver() -> Iterator[Any]:
    """A server on loopback that keeps what it receives."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            server.received.append((self.headers["Content-Type"], json.loads(content)))
            self.send_response(server.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.received, server.status = [], 200
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_connection_has_the_url_that_alerts_are_posted_to(
    home: Home, receiver: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"http://127.0.0.1:{receiver.server_port}/hook?token=secret"
    connection = {"conn_type": "generic", "extra": {"url": url}}
    monkeypatch.setenv("AIRFLOW_CONN_PSTSTREAM_ALERTS", json.dumps(connection))
    receiver.status = 503
    Run(home.path, 0).fail(ValueError("x"))
    receiver.status = 200
    for minute in range(1, 4):
        Run(home.path, minute).fail(ValueError("x"))
    Run(home.path, 4).succeed()
    assert [message["state"] for _, message in receiver.received] == ["failed", "failed", "recovered"]
    kind, message = receiver.received[1]
    assert kind == "application/json" and message["text"].startswith("FAILED: health.lag, run at-1")
    assert (message["dag_id"], message["task_id"], message["run_id"]) == ("health", "lag", "at-1")

    Run(home.path, 5, alerts_conn_id="another").fail(ValueError("x"))
    assert len(receiver.received) == 3, "there is no such connection"
    Run(home.path, 6).succeed()
    monkeypatch.setenv("AIRFLOW_CONN_PSTSTREAM_ALERTS", json.dumps(connection | {"extra": {"url": "file:///etc/x"}}))
    Run(home.path, 7).fail(ValueError("x"))
    assert 'the extra is not {"url"' in caplog.text


def test_a_task_of_another_dag_alerts_at_each_failure() -> None:
    from pststream.airflow import make_dag

    task = make_dag("micro_batch").get_task("match")
    assert [callback.__self__.__class__.__name__ for callback in task.on_failure_callback] == ["Alerts"]
    assert not task.on_success_callback, "deliver and others are skipped where they have no work"
