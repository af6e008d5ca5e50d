"""The heartbeat of a watcher: its content while the watcher runs, and how a reader sees that the watcher is gone."""

import datetime as dt
import errno
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from pststream.base.errors import HomeBusy, RunnerBusy
from pststream.reports.reading.home_figures import GONE_SECONDS, read_watcher, render_watcher
from pststream.state import home
from pststream.state.heartbeat import Heartbeat
from pststream.state.home import RUNNER, Home
from pststream.storage.local_folder import LocalFolder


@pytest.fixture
def bare(tmp_path: Path) -> Home:
    """A folder is all that locks and heartbeats need."""
    return Home(tmp_path)


def read_heartbeat(home: Home, seconds: float = 0.0) -> Any:
    return read_watcher(home, dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds))


def test_it_beats_until_the_end(bare: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFolder, "heartbeat_seconds", 0.02)
    assert read_heartbeat(bare) is None and render_watcher(None) == []
    with Heartbeat(bare) as heart:
        heart.report("working", time.monotonic() - 10, waiting_files=2, batch_id=7, batches=1)
        first = read_heartbeat(bare)
        deadline = time.monotonic() + 60
        while read_heartbeat(bare)["at"] <= first["at"]:
            assert time.monotonic() < deadline, "it does not beat by itself"
            time.sleep(0.02)
        assert first["alive"] and (first["process"], first["state"], first["batch_id"]) == (os.getpid(), "working", 7)
        assert 10 <= first["lag_seconds"] < read_heartbeat(bare)["lag_seconds"] < 100
        assert "working" in render_watcher(first)[0] and "2 files waiting" in render_watcher(first)[0]
        gone = read_heartbeat(bare, GONE_SECONDS + 1)
        assert not gone["alive"] and gone["lag_seconds"] > 40
        assert render_watcher(gone)[0].startswith("WATCHER        dead (no heartbeat)")
    ended = read_heartbeat(bare)
    assert (ended["state"], ended["alive"]) == ("stopped", False)
    assert render_watcher(ended)[0].startswith("watcher        stopped")
    assert sorted(os.listdir(bare.path)) == [names.HEARTBEAT]


def test_an_error_is_told(bare: Home) -> None:
    with pytest.raises(ValueError), Heartbeat(bare):
        raise ValueError("no such thing")
    found = read_heartbeat(bare)
    assert (found["state"], found["error"], found["alive"]) == ("failed", "ValueError: no such thing", False)
    assert render_watcher(found)[1].endswith("ValueError: no such thing")


def test_who_holds_a_home_is_told(bare: Home) -> None:
    refused = pytest.raises(RunnerBusy, match=rf"process {os.getpid()}, since 20.*Z, on \S+\)")
    with bare.locked(RUNNER), refused, bare.locked(RUNNER, RunnerBusy):
        pass
    with bare.locked(RUNNER, RunnerBusy), bare.locked():
        pass


def test_beside_a_runner_the_home_is_waited_for(bare: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "RUNNER_WAIT_SECONDS", 60.0)
    runner = Path(bare.path) / f".lock-{RUNNER}"
    runner.write_text(json.dumps({"process": 1, "command": "pststream run", "since": "2026-01-01T00:00:00Z"}))
    holds = threading.Event()

    def hold() -> None:
        with Home(bare.path).locked():
            holds.set()
            time.sleep(0.3)

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    with bare.locked():
        pass
    thread.join()
    runner.write_text("")
    with bare.locked(), pytest.raises(HomeBusy), Home(bare.path).locked():
        pass


def test_a_disk_that_is_full_for_a_while_ends_nothing(bare: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with Heartbeat(bare) as heart:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            heart.report("working")
            assert read_heartbeat(bare)["state"] != "working"
        heart.report("idle")
        assert read_heartbeat(bare)["state"] == "idle"
