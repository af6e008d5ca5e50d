"""Progress and errors as JSON lines: each line stands for itself, and says which step of which batch it is of."""

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pststream.cli.stderr_log import StderrLog
from pststream.progress import LogMessage
from pststream.settings import Settings
from pststream.state.home import Home
from tests.commands import run_here


def said(capsys: Any) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_note_is_a_text(capsys: Any) -> None:
    StderrLog("match", False).log_progress(LogMessage("batch 3: done", step="match", batch_id=3))
    StderrLog("match", True).log_progress("not said")
    StderrLog("match", True).log_error("no such home")
    assert said(capsys) == ["batch 3: done", "pststream: no such home"]


def test_json_lines(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSTSTREAM_LOG", "json")
    lines = StderrLog("run", False)
    lines.log_progress("two\nlines, ü")
    lines.log_progress(LogMessage("batch 3: done", step="match", batch_id=3))
    lines.log_error("broken")
    plain, of_batch, error = map(json.loads, said(capsys))
    assert (plain["level"], plain["step"], plain["message"]) == ("info", "run", "two\nlines, ü")
    assert (of_batch["step"], of_batch["batch_id"]) == ("match", 3)
    assert (error["level"], error["message"]) == ("error", "broken")
    assert all(line["time"].endswith("Z") and line["process"] > 0 for line in (plain, of_batch, error))


def test_an_error_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSTSTREAM_LOG", "json")
    done = run_here("status", "--home", tmp_path / "nowhere")
    (line,) = map(json.loads, done.err.splitlines())
    assert done.code == 2 and (line["level"], line["step"]) == ("error", "status") and "init" in line["message"]


def test_what_sinks_do_is_of_the_step_deliver(hand_home: Home) -> None:
    from pststream.pipeline.delivery.sink_threads import SinkThreads
    from pststream.sinks.sink_settings import SinkSettings

    told: list[str] = []
    sink = SinkSettings(name="files", kind="file", target=f"{hand_home.path}/told")
    loops = SinkThreads(hand_home, Settings(sinks=(sink,)), told.append)
    loops.start()
    until = time.monotonic() + 30
    while not told and time.monotonic() < until:
        time.sleep(0.01)
    loops.stop()
    assert [note.fields for note in told if isinstance(note, LogMessage)] == [{"step": "deliver"}]


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_what_cannot_be_said_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Full())
    lines = StderrLog("run", quiet=False)
    lines.log_progress("a batch is done")
    lines.log_error("it is not")
