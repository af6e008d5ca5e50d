"""The task `deliver` takes secrets from the connection, logs none of them, and fails if a sink is down."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pststream.state.home import Home
from tests.matched_homes import add_matched_batch, add_subscriptions
from tests.oracles.delivery import expected_messages
from tests.receiver import SECRET, receiving

pytestmark = pytest.mark.airflow

SINKS_CONNECTION = "pststream_sinks"
TOKEN = "a-token-that-no-log-may-show"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with a batch, and a webhook without target or secret in its settings."""
    home = Home(tmp_path / "home")
    home.init()
    add_matched_batch(home, add_subscriptions(home, 4), 6, seed=1)
    with open(tmp_path / "home" / "pststream.toml", "a") as file:
        file.write('[sinks.hook]\nkind = "webhook"\nnetworks = "127.0.0.0/8"\ntries = 2\n')
    return home


@pytest.fixture
def task(dagbag: Any) -> Any:
    """The function of the task."""
    found = dagbag.dags["pststream_micro_batch"].get_task("deliver")
    assert (found.retries, found.pool) == (0, "default_pool")
    assert (found.upstream_task_ids, found.trigger_rule) == ({"match"}, "all_done")
    return found.python_callable


def connect(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    extra = {"hook": {"secret": SECRET, "target": f"{url}?t={TOKEN}"}}
    connection = json.dumps({"conn_type": "generic", "extra": extra})
    monkeypatch.setenv(f"AIRFLOW_CONN_{SINKS_CONNECTION.upper()}", connection)


@pytest.mark.deep
def test_the_connection_has_the_secrets(
    task: Any, home: Home, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    from pststream.airflow.runners.job_outcome import JobFailed

    caplog.set_level(logging.DEBUG)
    with receiving() as receiver:
        connect(monkeypatch, receiver.url)
        sinks = task([f"--home={home.path}"], SINKS_CONNECTION, None)
        assert receiver.taken == expected_messages(home)
    assert (sinks["hook"]["state"], sinks["hook"]["delivered"]) == ("ok", len(receiver.taken))
    add_matched_batch(home, [1 << 32 | 1], 40, seed=2)
    with pytest.raises(JobFailed, match="hook: down") as caught:
        task([f"--home={home.path}"], SINKS_CONNECTION, None)
    output = capfd.readouterr()
    shown = output.out + output.err + caplog.text + json.dumps(sinks) + str(caught.value)
    assert "sink hook" in shown
    assert SECRET not in shown and TOKEN not in shown


@pytest.mark.deep
def test_a_sink_has_a_connection_of_its_own(
    task: Any, home: Home, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    """It counts before the connection of all sinks. No file of the home has its secrets, and Airflow masks them."""
    from airflow.sdk import BaseHook
    from airflow.sdk._shared.secrets_masker import redact

    caplog.set_level(logging.DEBUG)
    with receiving() as receiver:
        connect(monkeypatch, "http://127.0.0.1:1/wrong")
        own = {"conn_type": "pststream_sink", "password": SECRET}
        own["extra"] = {"secret_target": f"{receiver.url}?t={TOKEN}"}  # type: ignore[assignment]
        monkeypatch.setenv("AIRFLOW_CONN_MALMO_SINK_HOOK", json.dumps(own))
        sinks = task([f"--home={home.path}"], SINKS_CONNECTION, None, sink_prefix="malmo_sink_")
        assert receiver.taken == expected_messages(home)
    output = capfd.readouterr()
    shown = output.out + output.err + caplog.text + json.dumps(sinks)
    assert "sink hook" in shown
    files = [file.read_bytes() for file in Path(home.path).rglob("*") if file.is_file()]
    for secret in (SECRET, TOKEN):
        assert secret not in shown and not [content for content in files if secret.encode() in content]
    assert TOKEN not in str(redact(BaseHook.get_connection("malmo_sink_hook").extra_dejson))


def test_each_home_has_connections_of_its_own() -> None:
    from pststream.airflow import make_dag

    for prefix, sinks in (("", "pststream_sink_"), ("malmo_", "malmo_sink_")):
        deliver = make_dag("micro_batch", prefix=prefix).get_task("deliver")
        assert deliver.op_kwargs["sink_prefix"] == sinks


@pytest.mark.deep
def test_without_the_connection(task: Any, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream.airflow.runners.job_outcome import JobFailed

    monkeypatch.delenv(f"AIRFLOW_CONN_{SINKS_CONNECTION.upper()}", raising=False)
    with pytest.raises(JobFailed, match="PSTSTREAM_SINK_HOOK_TARGET"):
        task([f"--home={home.path}"], SINKS_CONNECTION, None)
