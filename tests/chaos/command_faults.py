"""Inject faults without a watcher: kill commands and jobs, cut the power, fail the store, damage a data file."""

import datetime as dt
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pststream.state.home import Home as Tables
from pststream.state.locks import holder_process
from tests.bad_store import BUCKET, is_body
from tests.chaos.environment import AHEAD_SECONDS, ChaosEnvironment, restore
from tests.chaos.plan import Episode
from tests.commands import KILLED, ROOT, Home, run_here
from tests.flushed_disk import FlushedDisk
from tests.kill_and_rerun import table_of
from tests.oracles.delivery import expected_messages
from tests.watcher_process import SECONDS
from tests.worlds import CITY, WORDS

LANDING = f"s3://{BUCKET}/in"
CORRUPTED = ("objects", "requests", "matches", "worker_index", "files", "batches", "plan_units", "answer_log")
TRIES = 12
MOST_FLUSHES = 60
"""A run of two to four files flushes about so many times."""


def killed_command(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Run a command that kills itself at a step."""
    (fault,) = episode.faults
    name, rnd = fault.detail.split(".")[0], random.Random(fault.seed)
    if name == "fetch":
        _upload(chaos, 2)
    arguments = {
        "plan": ["plan", "--planner", rnd.choice(("grid", "kd_tree", "hybrid"))],
        "balance": ["balance", rnd.choice(("local", "global", "retire", "undo")), "--apply"],
        "backup": ["backup", "--out", str(chaos.folder / f"torn-backup-{time.monotonic_ns()}")],
        "fetch": ["run", LANDING],
        "maintain": ["maintain"],
        "statistics": ["term-statistics"],
    }[name]
    chaos.injected[fault.kind] += chaos.home.crash(fault.detail, *arguments).code == KILLED


def killed_job(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Kill the job that the DAG submits as Airflow ends a task: with its process group."""
    (fault,) = episode.faults
    rnd = random.Random(fault.seed)
    for kind, path in chaos.next_files(2):
        (chaos.landing / kind / path.name).write_bytes(path.read_bytes())
    command = [
        sys.executable,
        "-m",
        "jobs.micro_batch",
        f"--home={chaos.home.path}",
        f"--landing={chaos.landing}",
    ]
    job = subprocess.Popen(
        command, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + SECONDS
    while job.poll() is None and _holder(chaos) != job.pid:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(rnd.uniform(0, 5))
    was_working = job.poll() is None and _holder(chaos) == job.pid
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    chaos.injected[fault.kind] += was_working


def bad_answers(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Run the main job on a bucket whose store fails some requests and then recovers."""
    rnd = random.Random(episode.faults[0].seed)
    left = len(episode.faults)
    _upload(chaos, rnd.choice((4, 6)))

    def fault(method: str, target: str) -> int | str | None:
        nonlocal left
        if not left or rnd.random() < 0.5:
            return None
        left -= 1
        return rnd.choice((503, 503, "cut", "hang") if is_body(method, target) else (503, 503, "hang"))

    chaos.store.fault, chaos.store.seconds = fault, 0.2
    try:
        for _ in range(TRIES):
            ended = run_here("run", LANDING, "--home", chaos.home.path, "--json")
            assert ended.code in (0, 1), ended.err
            if not left:
                break
    finally:
        chaos.store.recover()
    chaos.injected["s3_answer_bad"] += len(episode.faults) - left
    chaos.home.run("run", LANDING)


def corrupted(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Damage a data file after a backup, restore the home, and ingest again what landed since."""
    (fault,) = episode.faults
    rnd = random.Random(fault.seed)
    backup = chaos.folder / f"backup-{time.monotonic_ns()}"
    chaos.home.run("run", chaos.landing)
    chaos.home.run("backup", "--out", backup)
    for kind, path in chaos.next_files(2):
        (chaos.landing / kind / path.name).write_bytes(path.read_bytes())
    chaos.home.run("run", chaos.landing)
    chaos.allowed |= {message["id"]: message for message in expected_messages(Tables(chaos.home.path))}
    files = [file for name in CORRUPTED for file in sorted(table_of(chaos.home, name).file_uris())]
    _damage(Path(rnd.choice(files).removeprefix("file://")), rnd)
    noticed = run_here("check", "--all", "--home", chaos.home.path, "--json").code != 0
    restore(chaos.home, backup)
    assert chaos.home.run("check", "--all")["success"]
    chaos.home.run("run", chaos.landing)
    chaos.injected[fault.kind] += 1
    chaos.noticed += noticed


def power_cut(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Cut the power at a flush of a run, on a copy of the home; the home then has what the cut has left of the copy.

    The run is in this process, whose flushes are recorded (tests/flushed_disk.py), and so are its tasks.
    """
    (fault,) = episode.faults
    rnd = random.Random(fault.seed)
    folder = chaos.folder / f"power-{time.monotonic_ns()}"
    copy, left = Home(folder / "home"), folder / "left"
    shutil.copytree(chaos.home.path, copy.path)
    for kind, path in chaos.next_files(rnd.choice((2, 4))):
        (chaos.landing / kind / path.name).write_bytes(path.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PSTSTREAM_ENGINE", "local")
        disk = FlushedDisk(copy.path, left, rnd.randrange(MOST_FLUSHES), rnd.random() < 0.5)
        with disk.recording(patch):
            copy.run("run", chaos.landing)
    chaos.injected[fault.kind] += left.exists()
    restore(chaos.home, left if left.exists() else copy.path)
    shutil.rmtree(folder)


def killed_withdrawal(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Ingest an object of a wrong clock and files that it makes late; withdraw it by a command that kills itself."""
    (fault,) = episode.faults
    name = f"ahead-{len(chaos.ahead)}"
    file = chaos.folder / f"{name}.jsonl"
    ts = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=AHEAD_SECONDS)).isoformat()
    row = {"object_id": name, "ts": ts, "lon": CITY[0], "lat": CITY[1], "text": " ".join(WORDS)}
    file.write_text(json.dumps(row) + "\n", "utf-8")
    chaos.ahead.append((name, file))
    for kind, path in (*chaos.next_files(4), ("objects", file), *chaos.next_files(2)):
        (chaos.landing / kind / path.name).write_bytes(path.read_bytes())
        chaos.home.run("run", chaos.landing)
    chaos.injected[fault.kind] += chaos.home.crash(fault.detail, "withdraw", "--object-id", name).code == KILLED
    chaos.home.run("withdraw", "--object-id", name)
    chaos.home.run("run", chaos.landing)


def _upload(chaos: ChaosEnvironment, count: int) -> None:
    for kind, path in chaos.next_files(count):
        chaos.uploader.put(f"in/{kind}/{path.name}", path.read_bytes())


def _holder(chaos: ChaosEnvironment) -> int | None:
    return holder_process(chaos.home.path / ".lock")


def _damage(path: Path, rnd: random.Random) -> None:
    content = path.read_bytes()
    low = rnd.randrange(len(content))
    path.write_bytes(rnd.choice((b"", content[:low], content[:low] + rnd.randbytes(99) + content[low + 99 :])))
