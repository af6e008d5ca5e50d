"""Progress and errors as text, and as JSON log with their step and batch."""

import io
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pststream.base.progress import LogMessage, StepCounter
from pststream.base.stderr_log import COUNT_SECONDS, ERASED, TERMINAL_SECONDS, StderrLog
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
    from pststream.delivery.sinks.settings import SinkSettings
    from pststream.pipeline.delivery.deliver import SinkThreads

    messages: list[str] = []
    sink = SinkSettings(name="files", kind="file", target=f"{hand_home.path}/delivered")
    threads = SinkThreads(hand_home, Settings(sinks=(sink,)), messages.append)
    threads.start()
    until = time.monotonic() + 300
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


class Clock:
    """A clock of steps that stands still until it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("pststream.base.progress.time.monotonic", lambda: self.now)


def test_a_terminal_shows_one_count_and_erases_it(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    clock, log = Clock(monkeypatch), StderrLog("backup", False)
    counter = StepCounter(log.log_progress, "copying", "file", 5)
    counter.add(1)
    for clock.now in (TERMINAL_SECONDS, 2.0):
        counter.add(1)
    log.log_progress("a line")
    counter.add(1)
    StepCounter(log.log_progress, "sweeping", "file", 5).add(1)
    parts = capsys.readouterr().err.split(ERASED)
    assert [part.split(",")[0] for part in parts] == [
        "",
        "copying: 2 of 5 files",
        "copying: 3 of 5 files",
        "a line\n",
        "copying: 4 of 5 files",
        "",
    ]


def test_without_a_terminal_a_count_is_logged_after_some_time(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    log, quiet = StderrLog("backup", False), StderrLog("backup", True)
    for one in (log, quiet):
        clock.now = 0.0
        counter = StepCounter(one.log_progress, "copying", "file", 4)
        for clock.now in (COUNT_SECONDS - 0.1, COUNT_SECONDS, COUNT_SECONDS + 1):
            counter.add(1)
    assert logged(capsys) == ["copying: 2 of 4 files, 0.2/s, 10.0 s left"]


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_an_ingest_counts_its_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, engine: str
) -> None:
    """The steps of a real command, with no step too short to be logged, on either engine."""
    monkeypatch.setattr("pststream.base.stderr_log.COUNT_SECONDS", 0.0)
    monkeypatch.setenv("PSTSTREAM_ENGINE", engine)
    monkeypatch.setenv("PSTSTREAM_SPARK_MASTER", "local[2]")
    for number in range(4):
        rows = "".join(f"{number}-{row},2026-01-01T00:00:00Z,18,59,coffee\n" for row in range(50))
        (tmp_path / f"{number}.csv").write_text("object_id,ts,lon,lat,text\n" + rows)
    assert run_here("init", "--home", tmp_path / "home").code == 0
    command = ("ingest", "objects", *sorted(tmp_path.glob("*.csv")), "--home", tmp_path / "home")
    counts = [line for line in run_here(*command).err.splitlines() if "/s" in line]
    size = (tmp_path / "0.csv").stat().st_size
    read = re.compile(
        rf"reading objects: {size / 1000:.3g} kB of {4 * size / 1000:.3g} kB, .*/s, .* s left \(1 of 4 files\)"
    )
    assert any(read.fullmatch(line) for line in counts), counts
    for step in ("comparing ids with the log", "appending objects"):
        assert any(line.startswith(f"{step}: 50 of 200 rows, ") for line in counts), counts
    assert run_here(*command[:-2], "--home", tmp_path / "home", "--quiet").err == ""
