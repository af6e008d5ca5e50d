"""Faults without a watcher: commands and jobs killed, a store that answers badly, a data file that is damaged."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from pststream.state.home import Home as Tables
from pststream.state.locking.file_lock import holder
from tests.bad_store import BUCKET, is_body
from tests.chaos.place import Place, put_back
from tests.chaos.plan import Episode
from tests.commands import KILLED, ROOT, run_here
from tests.killing import table_of
from tests.oracles.delivery import expected_messages
from tests.watching import SECONDS

LANDING = f"s3://{BUCKET}/in"
CORRUPTED = ("objects", "requests", "matches", "worker_index", "files", "batches", "plan_units")
TRIES = 12


def killed_command(place: Place, episode: Episode) -> None:
    """A command beside the main job, that kills itself at a step."""
    (fault,) = episode.faults
    name, rnd = fault.detail.split(".")[0], random.Random(fault.seed)
    if name == "fetch":
        _upload(place, 2)
    arguments = {
        "plan": ["plan", "--planner", rnd.choice(("grid", "kd_tree", "hybrid"))],
        "balance": ["balance", rnd.choice(("local", "global", "retire", "undo")), "--apply"],
        "backup": ["backup", "--out", str(place.folder / f"torn-backup-{time.monotonic_ns()}")],
        "fetch": ["run", LANDING],
    }[name]
    place.injected[fault.kind] += place.home.crash(fault.detail, *arguments).code == KILLED


def killed_job(place: Place, episode: Episode) -> None:
    """What the DAG submits, as Airflow ends a task: with all processes of its group."""
    (fault,) = episode.faults
    rnd = random.Random(fault.seed)
    for kind, path in place.next_files(2):
        (place.landing / kind / path.name).write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "jobs.micro_batch", f"--home={place.home.path}", f"--landing={place.landing}"]
    job = subprocess.Popen(
        command, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + SECONDS
    while job.poll() is None and _holder(place) != job.pid:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(rnd.uniform(0, 5))
    at_work = job.poll() is None and _holder(place) == job.pid
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    place.injected[fault.kind] += at_work


def bad_answers(place: Place, episode: Episode) -> None:
    """The main job on a bucket whose store fails so many requests, and is well then."""
    rnd = random.Random(episode.faults[0].seed)
    left = len(episode.faults)
    _upload(place, rnd.choice((4, 6)))

    def fault(method: str, target: str) -> int | str | None:
        nonlocal left
        if not left or rnd.random() < 0.5:
            return None
        left -= 1
        return rnd.choice((503, 503, "cut", "hang") if is_body(method, target) else (503, 503, "hang"))

    place.store.fault, place.store.seconds = fault, 0.2
    try:
        for _ in range(TRIES):
            ended = run_here("run", LANDING, "--home", place.home.path, "--json")
            assert ended.code in (0, 1), ended.err
            if not left:
                break
    finally:
        place.store.well()
    place.injected["s3_answer_bad"] += len(episode.faults) - left
    place.home.run("run", LANDING)


def corrupted(place: Place, episode: Episode) -> None:
    """A data file is damaged after a backup: the home is restored, and takes in again what landed since."""
    (fault,) = episode.faults
    rnd = random.Random(fault.seed)
    backup = place.folder / f"backup-{time.monotonic_ns()}"
    place.home.run("run", place.landing)
    place.home.run("backup", "--out", backup)
    for kind, path in place.next_files(2):
        (place.landing / kind / path.name).write_bytes(path.read_bytes())
    place.home.run("run", place.landing)
    place.allowed |= {message["id"]: message for message in expected_messages(Tables(place.home.path))}
    files = [file for name in CORRUPTED for file in sorted(table_of(place.home, name).file_uris())]
    _damage(Path(rnd.choice(files).removeprefix("file://")), rnd)
    noticed = run_here("check", "--all", "--home", place.home.path, "--json").code != 0
    put_back(place.home, backup)
    assert place.home.run("check", "--all")["success"]
    place.home.run("run", place.landing)
    place.injected[fault.kind] += 1
    place.noticed += noticed


def _upload(place: Place, count: int) -> None:
    for kind, path in place.next_files(count):
        place.uploader.put(f"in/{kind}/{path.name}", path.read_bytes())


def _holder(place: Place) -> int | None:
    return holder(place.home.path / ".lock")


def _damage(path: Path, rnd: random.Random) -> None:
    content = path.read_bytes()
    low = rnd.randrange(len(content))
    path.write_bytes(rnd.choice((b"", content[:low], content[:low] + rnd.randbytes(99) + content[low + 99 :])))
