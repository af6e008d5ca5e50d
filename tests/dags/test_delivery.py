"""The task `deliver` takes secrets from the connection, logs none of them, and fails if a sink is down."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pststream import names
from pststream.state.home import Home
from tests.matched_homes import add_matched_batch, add_subscriptions
from tests.oracles.delivery import expected_messages
from tests.receiver import SECRET, receiving

pytestmark = pytest.mark.airflow

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
    monkeypatch.setenv(f"AIRFLOW_CONN_{names.SINKS_CONNECTION.upper()}", connection)


def test_the_connection_has_the_secrets(
    task: Any, home: Home, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    from pststream.airflow.runners.job_outcome import JobFailed

    caplog.set_level(logging.DEBUG)
    with receiving() as receiver:
        connect(monkeypatch, receiver.url)
        sinks = task(f"--home={home.path}", names.SINKS_CONNECTION, None)
        assert receiver.taken == expected_messages(home)
    assert (sinks["hook"]["state"], sinks["hook"]["delivered"]) == ("ok", len(receiver.taken))
    add_matched_batch(home, [1 << 32 | 1], 40, seed=2)
    with pytest.raises(JobFailed, match="hook: down") as caught:
        task(f"--home={home.path}", names.SINKS_CONNECTION, None)
    output = capfd.readouterr()
    shown = output.out + output.err + caplog.text + json.dumps(sinks) + str(caught.value)
    assert "sink hook" in shown
    assert SECRET not in shown and TOKEN not in shown


def test_without_the_connection(task: Any, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream.airflow.runners.job_outcome import JobFailed

    monkeypatch.delenv(f"AIRFLOW_CONN_{names.SINKS_CONNECTION.upper()}", raising=False)
    with pytest.raises(JobFailed, match="PSTSTREAM_SINK_HOOK_TARGET"):
        task(f"--home={home.path}", names.SINKS_CONNECTION, None)
