"""Files that kill their reader, in a watcher, on Spark and in a job of a DAG: the good files get through."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pststream.input.input_files import sha256_of
from pststream.pipeline.ingest.isolated_reader import DEAD_TRIES, NOTE
from tests.commands import ENTRY, ROOT, Home, new_home
from tests.kill_and_rerun import table_of
from tests.watcher_process import Watching, landing_folder

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

HOSTILE = os.pathsep.join((str(ROOT / "tests" / "hostile_readers"), str(ROOT)))


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    return landing_folder(tmp_path / "landing")


def land(landing: Path, *names: str) -> None:
    for name in names:
        rows = "".join(f"{name}{n},2026-03-01T00:00:{n:02}Z,1,2,tea\n" for n in range(40))
        (landing / ".new").write_text("object_id,ts,lon,lat,text\n" + rows)
        (landing / ".new").rename(landing / "objects" / name)


def note_dead_try(home: Home, landing: Path) -> None:
    """Note that the landed files were read once when a process died."""
    tries = {sha256_of(str(path)): DEAD_TRIES - 1 for path in landing.glob("*/*.csv")}
    (home.path / NOTE).write_text(json.dumps(tries))


def quarantined(home: Home) -> dict[str, str]:
    rows = table_of(home, "quarantine").to_pyarrow_table().to_pylist()
    return {Path(row["path"]).name: row["reasons"][0] for row in rows}


def ingested(home: Home) -> set[str]:
    rows = table_of(home, "files").to_pyarrow_table().to_pylist()
    return {Path(row["path"]).name for row in rows if row["status"] == "done" and row["accepted"] == 40}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a Python program with the hostile readers."""
    command = [sys.executable, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": HOSTILE}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_a_watcher_outlasts_them(tmp_path: Path, landing: Path) -> None:
    home = new_home(tmp_path / "home", engine="local", workers=2, read_seconds=20)
    land(landing, "a.csv", "abort.csv", "b.csv")
    for _ in range(2):
        with Watching(home, landing, PYTHONPATH=HOSTILE) as watcher:
            assert watcher.process.wait(400) == -signal.SIGABRT
        assert ingested(home) == set()
    with Watching(home, landing, PYTHONPATH=HOSTILE) as watcher:
        watcher.until_idle(1)
        assert (ingested(home), quarantined(home)) == (
            {"a.csv", "b.csv"},
            {"abort.csv": "its reader was ended by SIGABRT"},
        )
        land(landing, "c.csv", "lack.csv", "sleep.csv")
        watcher.until_idle(2)
        assert ingested(home) == {"a.csv", "b.csv", "c.csv"}
        assert quarantined(home).keys() == {"abort.csv", "lack.csv", "sleep.csv"}
        land(landing, "d.csv")
        watcher.until_idle(3)
        assert watcher.end()[0] == 0
    assert ingested(home) == {"a.csv", "b.csv", "c.csv", "d.csv"}


@pytest.mark.slow
@pytest.mark.spark
def test_a_worker_of_spark_that_is_killed(tmp_path: Path, landing: Path) -> None:
    home = new_home(tmp_path / "home", engine="spark", spark_master="local[2]", workers=2)
    land(landing, "a.csv", "kill.csv", "b.csv")
    note_dead_try(home, landing)
    done = run("-c", ENTRY, "run", landing, "--home", home.path)
    assert done.returncode == 1 and ingested(home) == set(), done.stderr[-3000:]
    done = run("-c", ENTRY, "run", landing, "--home", home.path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert ingested(home) == {"a.csv", "b.csv"}
    assert quarantined(home) == {"kill.csv": "its reader was ended by SIGKILL"}


@pytest.mark.slow
def test_a_job_of_a_dag(tmp_path: Path, landing: Path) -> None:
    home = new_home(tmp_path / "home", engine="local", workers=2)
    land(landing, "a.csv", "kill.csv", "b.csv")
    result = tmp_path / "result.json"
    job = [ROOT / "jobs" / "micro_batch.py", f"--home={home.path}", f"--landing={landing}", f"--result={result}"]
    note_dead_try(home, landing)
    assert run(*job).returncode == -signal.SIGKILL and not result.exists()
    assert run(*job).returncode == 0
    outcome: dict[str, Any] = json.loads(result.read_text())
    (hold,) = outcome["result"]["ingest"]["objects"]["quarantined"]
    assert hold["reasons"] == ["its reader was ended by SIGKILL"] and ingested(home) == {"a.csv", "b.csv"}
