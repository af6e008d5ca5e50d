"""Run the watcher as a process: it matches landed files, refuses other runners, allows upkeep and survives faults."""

import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from pststream.pipeline.main_job.run import STOP_SECONDS
from tests import worlds
from tests.commands import KILLED, ROOT, Home, run_here
from tests.kill_and_rerun import assert_as_the_twin, home_for, landed_log, written
from tests.oracles.twin_rows import LogFile
from tests.watcher_process import Watching, landing_folder
from tests.worlds import WrittenWorld

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]

FILES = 2
END_SECONDS = STOP_SECONDS + 120
"""The limit, plus a margin for a busy machine."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WrittenWorld:
    return written(tmp_path_factory.mktemp("world") / "files", 61, FILES)


@pytest.fixture
def home(tmp_path: Path, world: WrittenWorld) -> Home:
    """Make a home with a sink."""
    made = home_for(tmp_path / "home", world)
    made.add_sink("files", kind="file", target=str(tmp_path / "delivered"))
    return made


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    return landing_folder(tmp_path / "landing")


def log_of(world: WrittenWorld) -> list[LogFile]:
    """Return the files in the order of landing: of each kind in turn."""
    pairs = zip(world.requests, world.objects)
    return [LogFile(kind, path) for pair in pairs for kind, path in zip(("requests", "objects"), pair)]


def test_files_are_taken_as_they_land(home: Home, landing: Path, world: WrittenWorld) -> None:
    with Watching(home, landing, "--metrics=0") as watching:
        watching.until_idle()
        _its_metrics_are_served_on_loopback(watching)
        for number in range(FILES):
            watching.land("requests", world.requests[number])
            watching.until_idle(2 * number + 1)
            watching.land("objects", world.objects[number])
            watching.until_idle(2 * number + 2)
        _second_runner_is_refused(home, landing, watching.process.pid)
        assert home.run("maintain")["files_removed"] >= 0, "upkeep has its turn"
        assert home.run("balance", "local", "--apply")["plan_version_before"] == 1, "and so has an adjustment"
        watching.until(lambda pulse: pulse["state"] == "idle" and pulse["error"] is None)
        status = home.run("status")["watcher"]
        assert status["alive"] and status["lag_seconds"] < 60 and status["error"] is None
        _a_batch_of_another_command_is_told(home, watching)
        _bad_file_ends_nothing(home, watching)
        _questions_are_answered(landing, watching)
        _idle_costs_little(watching)
        watching.until(lambda pulse: not home.run("status")["deliveries"][0]["batches_left"])
        code, document, seconds = watching.end()
    assert code == 0 and seconds < END_SECONDS
    assert (document["batches"], document["failures"]) == (4, 0)
    assert not document["abandoned"] or seconds > STOP_SECONDS
    assert home.run("status")["watcher"]["state"] == "stopped"
    assert home.run("deliver")["sinks"]["files"]["delivered"] == 0, "the watcher has sent all messages"
    assert sum(home.run("status")["deliveries"][0][name] for name in ("delivered", "dead")) > 0
    assert_as_the_twin(home, log_of(world), world.lateness_seconds)


def _questions_are_answered(landing: Path, watching: Watching) -> None:
    (landing / "questions").mkdir()
    (landing / "questions" / "q.jsonl").write_text('{"question_id": "q", "bbox": [-180, -90, 180, 90], "limit": 3}\n')
    answers = landing / "answers" / "q.jsonl.parquet"
    watching.until(lambda pulse: answers.exists())
    assert pq.read_table(answers)["rank"].to_pylist() == [1, 2, 3]


def _its_metrics_are_served_on_loopback(watching: Watching) -> None:
    [(address, port)] = re.findall(r"metrics: (http://127\.0\.0\.1:(\d+)/metrics)$", watching.log, re.M)
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert "\npststream_watcher_up 1.0\n" in answer.read().decode()
    open_ports = [one.laddr for one in psutil.Process(watching.process.pid).net_connections() if one.status == "LISTEN"]
    assert {place.ip for place in open_ports} <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert int(port) in {place.port for place in open_ports}


def _second_runner_is_refused(home: Home, landing: Path, process: int) -> None:
    for more in ([], ["--watch"]):
        refused = run_here("run", landing, *more, "--home", home.path, "--json")
        assert (refused.code, refused.json["kind"]) == (1, "RunnerBusy")
        assert f"(process {process}, since " in refused.json["error"]


def _a_batch_of_another_command_is_told(home: Home, watching: Watching) -> None:
    """Sinks get the messages of a batch that another command matched."""
    last_batch = home.run("status")["deliveries"][0]["batch_id"]
    row = {"object_id": "unheard of", "ts": worlds.moment(0), "lon": 0.0, "lat": 0.0, "text": "unheard of"}
    home.ingest("objects", [worlds.write_rows(home.path.parent / "unheard.jsonl", [row])])
    home.match()
    watching.until(lambda pulse: home.run("status")["deliveries"][0]["batch_id"] > last_batch)


def _bad_file_ends_nothing(home: Home, watching: Watching) -> None:
    bad = home.path.parent / "bad.csv"
    bad.write_text("this is no table\n")
    watching.land("objects", bad)
    watching.until(lambda pulse: pulse["waiting_files"] == 0 and "bad.csv: quarantined" in watching.log)
    (hold,) = home.run("quarantine", "list")["quarantine"]
    assert "bad.csv" in hold["path"]


def _idle_costs_little(watching: Watching) -> None:
    """An idle watcher uses little CPU time and logs nothing."""
    watching.until_idle()
    leader = psutil.Process(watching.process.pid)

    def spent() -> float:
        seconds = 0.0
        for process in [leader, *leader.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                seconds += times.user + times.system
        return seconds

    before, said = spent(), len(watching.log)
    time.sleep(8)
    share = (spent() - before) / 8
    print(f"idle: {share:.1%} of a core")
    assert share < 0.6 and len(watching.log) == said


def test_killed_at_work_and_started_again(home: Home, landing: Path, world: WrittenWorld) -> None:
    """After a SIGKILL in a batch the next watcher finishes it and continues. An error of the home ends the watcher."""
    with Watching(home, landing, PSTSTREAM_CRASH_AT="match.matched") as watching:
        for number in range(FILES):
            watching.land("requests", world.requests[number])
            watching.land("objects", world.objects[number])
        assert watching.process.wait(400) == KILLED
    assert home.run("status")["unfinished"]
    mark = home.path / "home.json"
    whole = mark.read_text()
    with Watching(home, landing) as watching:
        watching.until_idle(1)
        mark.with_name("newer").write_text(json.dumps({"home_format": 99}))
        mark.with_name("newer").replace(mark)
        assert watching.process.wait(400) == 2
    mark.write_text(whole)
    status = home.run("status")["watcher"]
    assert status["state"] == "failed" and "newer version" in status["error"]
    assert_as_the_twin(home, landed_log(home, (*world.objects, *world.requests)), world.lateness_seconds)
    assert home.run("check", "--all")["success"]


ABANDONING = """
import os, signal, threading, time
from pststream.pipeline.main_job import run
from pststream.engine.running_engine import get_engine
from pststream.engine.spark_session import kill_spark, stop_spark
from pststream.settings import Settings

run.STOP_SECONDS = 1.0
with run.GracefulShutdown(kill_spark) as shutdown:
    engine = get_engine(Settings(engine="spark", spark_master="local[1]"))
    shutdown.install_handlers()
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    began = time.monotonic()
    try:
        engine.run_tasks([300], time.sleep)
    except (Exception, run.Abandoned):
        print(shutdown.abandoned, time.monotonic() - began < 250)
stop_spark()
os._exit(0)
"""


def test_a_step_in_spark_is_abandoned() -> None:
    """A second signal ends the watcher while Spark still waits for its tasks."""
    done = subprocess.run([sys.executable, "-c", ABANDONING], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout.split()) == (0, ["True", "True"]), done.stderr[-3000:]


def test_what_cannot_be_watched_is_refused(home: Home, landing: Path) -> None:
    for arguments in ([landing, "--strict"], ["s3://bucket/landing"], [landing / "nowhere"]):
        assert run_here("run", *arguments, "--watch", "--home", home.path).code == 2
