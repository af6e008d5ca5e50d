"""Progress and errors as text and as JSON log, and counts of steps with their rate and the time left."""

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pststream.base.progress import Counted, CountMessage, LogMessage, StepCounter, TaskCounter, with_fields
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


def test_the_name_of_a_file_forges_no_message(capsys: Any) -> None:
    StderrLog("run", False).log_error("a.csv\nbatch 7: done\x85batch 8: done: is no file\n  give a file")
    assert logged(capsys) == [
        "pststream: a.csv", "  batch 7: done\\x85batch 8: done: is no file", "  give a file"
    ]  # fmt: skip


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
    counts = run_here(*command).err.splitlines()
    size = (tmp_path / "0.csv").stat().st_size
    # Spark reports four times a second, and may have ended before.
    done, rows = (f"{size / 1000:.3g} kB", "50") if engine == "local" else ("0 bytes", "0")
    for step in (
        f"reading objects: {done} of {4 * size / 1000:.3g} kB",
        f"comparing ids with the log: {rows} of 200 rows",
        f"appending objects: {rows} of 200 rows",
    ):
        assert any(line.startswith(step) for line in counts), counts
    assert run_here(*command[:-2], "--home", tmp_path / "home", "--quiet").err == ""


class Log:
    """Collects messages under a clock that stands still until it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.messages = 0.0, list[str]()
        monkeypatch.setattr("pststream.base.progress.time.monotonic", lambda: self.now)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


def test_a_count_has_a_rate_and_the_time_left(log: Log) -> None:
    counter = StepCounter(log.messages.append, "matching", "object", 5_000_000, step="match")
    for log.now, number in ((2.0, 1_000_000), (4.0, 1_500_000), (5.0, 2_500_000)):
        counter.add(number)
    assert log.messages == [
        "matching: 0 of 5,000,000 objects",
        "matching: 1,000,000 of 5,000,000 objects, 500,000/s, 8.0 s left",
        "matching: 2,500,000 of 5,000,000 objects, 625,000/s, 4.0 s left",
    ]
    assert [message.fields for message in log.messages if isinstance(message, CountMessage)] == [
        {"step": "match", "seconds": seconds} for seconds in (0.0, 2.0, 4.0)
    ]


def test_bytes_are_counted_in_units_with_a_note(log: Log) -> None:
    counter = StepCounter(log.messages.append, "reading objects", "byte", 128_000_000)
    log.now = 2.0
    counter.add(32_000_000, "1 of 3 files")
    assert log.messages[1:] == ["reading objects: 32 MB of 128 MB, 16 MB/s, 6.0 s left (1 of 3 files)"]


def test_without_a_total_there_is_a_rate_only(log: Log) -> None:
    counter = StepCounter(log.messages.append, "exporting", "match", None)
    for log.now in (1.0, 300.0):
        counter.add(6)
    assert log.messages == ["exporting: 0 matches", "exporting: 6 matches, 6/s", "exporting: 12 matches, 0.04/s"]


def test_a_step_of_nothing_logs_nothing(log: Log) -> None:
    StepCounter(log.messages.append, "matching", "object", 0).add(0)
    TaskCounter(log.messages.append, Counted("sampling", "object", 0))
    assert log.messages == []


def test_tasks_are_counted_by_stage(log: Log) -> None:
    """The clock of a stage begins when the stage before has ended."""
    counter = TaskCounter(log.messages.append, Counted("reading", "row", 40), Counted("writing", "part", 4))
    for log.now, end in ((1.0, (0, 0.75)), (4.0, (0, 1.0)), (6.0, (1, 0.25)), (7.0, (2, 0.5)), (8.0, (1, 0.5))):
        counter(*end)
    assert log.messages == [
        "reading: 0 of 40 rows",
        "reading: 30 of 40 rows, 30/s, 0.33 s left",
        "writing: 0 of 4 parts",
        "writing: 1 of 4 parts, 0.5/s, 6.0 s left",
        "writing: 2 of 4 parts, 0.5/s, 4.0 s left",
    ]


def test_a_stage_begins_though_parts_of_the_stage_before_had_no_rows(log: Log) -> None:
    counter = TaskCounter(log.messages.append, *(Counted(step, "part", 2) for step in ("a", "b")))
    counter(0, 0.5)
    counter(1, 0.5)
    assert log.messages == ["a: 0 of 2 parts", "a: 1 of 2 parts", "b: 0 of 2 parts", "b: 1 of 2 parts"]


def test_fields_are_added_to_messages_of_every_kind() -> None:
    messages: list[str] = []
    log = with_fields(messages.append, step="ingest")
    for text in ("a", LogMessage("b", level="warning"), CountMessage("c", seconds=1.0)):
        log(text)
    assert [(str(one), type(one), one.fields) for one in messages if isinstance(one, LogMessage)] == [
        ("a", LogMessage, {"step": "ingest"}),
        ("b", LogMessage, {"level": "warning", "step": "ingest"}),
        ("c", CountMessage, {"seconds": 1.0, "step": "ingest"}),
    ]
