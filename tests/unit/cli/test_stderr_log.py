"""Progress and errors as text, and as JSON log with their step and batch."""

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pststream.cli.stderr_log import ERASED, StderrLog
from pststream.progress import LogMessage, StepCounter
from pststream.settings import Settings
from pststream.state.home import Home
from tests.commands import run_here


def logged(capsys: Any) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_plain_text(capsys: Any) -> None:
    StderrLog("match", False).log_progress(LogMessage("batch 3: done", step="match", batch_id=3))
    StderrLog("match", True).log_progress("not logged")
    StderrLog("match", True).log_error("no such home")
    assert logged(capsys) == ["batch 3: done", "pststream: no such home"]


def test_json_lines(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSTSTREAM_LOG", "json")
    log = StderrLog("run", False)
    log.log_progress("two\nlines, ü")
    log.log_progress(LogMessage("batch 3: done", step="match", batch_id=3))
    log.log_error("broken")
    plain, of_batch, error = map(json.loads, logged(capsys))
    assert (plain["level"], plain["step"], plain["message"]) == ("info", "run", "two\nlines, ü")
    assert (of_batch["step"], of_batch["batch_id"]) == ("match", 3)
    assert (error["level"], error["message"]) == ("error", "broken")
    assert all(line["time"].endswith("Z") and line["process"] > 0 for line in (plain, of_batch, error))


def test_an_error_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSTSTREAM_LOG", "json")
    done = run_here("status", "--home", tmp_path / "nowhere")
    (line,) = map(json.loads, done.err.splitlines())
    assert done.code == 2 and (line["level"], line["step"]) == ("error", "status") and "init" in line["message"]


def test_messages_of_sinks_have_the_step_deliver(hand_home: Home) -> None:
    from pststream.pipeline.delivery.sink_threads import SinkThreads
    from pststream.sinks.sink_settings import SinkSettings

    messages: list[str] = []
    sink = SinkSettings(name="files", kind="file", target=f"{hand_home.path}/delivered")
    threads = SinkThreads(hand_home, Settings(sinks=(sink,)), messages.append)
    threads.start()
    until = time.monotonic() + 30
    while not messages and time.monotonic() < until:
        time.sleep(0.01)
    threads.stop()
    assert [message.fields for message in messages if isinstance(message, LogMessage)] == [{"step": "deliver"}]


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_stops_only_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Full())
    log = StderrLog("run", quiet=False)
    log.log_progress("a batch is done")
    log.log_error("it is not")


def test_a_count_has_a_rate_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    clock = iter((0.0, 2.0, 4.0))
    monkeypatch.setattr("pststream.progress.time.monotonic", lambda: next(clock))
    counter = StepCounter(messages.append, "object", 5_000_000)
    for number in (1_000_000, 1_500_000, 2_500_000):
        counter.add(number)
    assert messages == [
        "1,000,000 of 5,000,000 objects, 500,000/s, 8.0 s left",
        "2,500,000 of 5,000,000 objects, 625,000/s, 4.0 s left",
    ]


def test_a_terminal_shows_one_count_and_erases_it(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    log = StderrLog("backup", False)
    counter = StepCounter(log.log_progress, "file", 4)
    counter.add(1)
    counter.add(1)
    log.log_progress("a line")
    counter.add(1)
    log.end_count()
    parts = capsys.readouterr().err.split(ERASED)
    assert [part.split(",")[0] for part in parts] == [
        "",
        "1 of 4 files",
        "2 of 4 files",
        "a line\n",
        "3 of 4 files",
        "",
    ]


def test_without_a_terminal_a_count_is_logged_after_some_time(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log, quiet = StderrLog("backup", False), StderrLog("backup", True)
    StepCounter(log.log_progress, "file", 2).add(1)
    assert logged(capsys) == []
    monkeypatch.setattr("pststream.cli.stderr_log.COUNT_SECONDS", 0.0)
    for one in (quiet, log):
        StepCounter(one.log_progress, "file", 2).add(1)
    (line,) = logged(capsys)
    assert line.startswith("1 of 2 files")
