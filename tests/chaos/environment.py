"""Set up a chaos run: a home on a separate disk, files that land one by one, sinks, a bucket, a clock."""

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from pststream.base import names
from pststream.engine import worker_daemon
from pststream.state.home import Home as State
from pststream.tables.delta_tables import read_table
from tests import worlds
from tests.bad_store import BadStore, Uploader, bad_store
from tests.chaos.clock import Clock
from tests.chaos.disk import Disk
from tests.commands import Home, new_home
from tests.moto_process import CREDENTIALS, moto_server
from tests.receiver import SECRET, Receiver, receiving
from tests.standing_worlds import requests_of_all_kinds
from tests.unbalanced_homes import RESTLESS
from tests.watcher_process import Watching, landing_folder

ROWS = 14
"""Average number of rows of a file."""

AHEAD_SECONDS = 3600
"""How far ahead of the clock objects of a wrong clock are; they are accepted."""


class Erased(NamedTuple):
    """The id of an object and a subscription that were erased together.

    after   number of the last file of the log before
    """

    after: int
    name: str


@dataclass
class ChaosEnvironment:
    """Everything that faults affect, and the counts of faults.

    ahead        the objects of a wrong clock, in the order in which they are withdrawn: id, and file of each
    others       files that have landed besides those of the world: kind, and path
    killing      ids of rows that kill their batch, and must be set aside
    most_rounds  how many runs a good file has waited at most beside hostile ones
    """

    seed: int
    folder: Path
    home: Home
    landing: Path
    world: worlds.WrittenWorld
    disk: Disk
    clock: Clock
    receiver: Receiver
    store: BadStore
    uploader: Uploader
    injected: Counter[str] = field(default_factory=Counter)
    allowed: dict[str, dict[str, Any]] = field(default_factory=dict)
    noticed: int = 0
    given: list[tuple[str, Path]] = field(default_factory=list)
    ahead: list[tuple[str, Path]] = field(default_factory=list)
    others: list[tuple[str, Path]] = field(default_factory=list)
    killing: list[str] = field(default_factory=list)
    erased: list[Erased] = field(default_factory=list)
    most_rounds: int = 0

    def __post_init__(self) -> None:
        pairs = zip(self.world.requests, self.world.objects, strict=True)
        self._coming = [(kind, path) for pair in pairs for kind, path in zip(("requests", "objects"), pair)]

    def next_files(self, count: int) -> list[tuple[str, Path]]:
        """Return the next files of the world, in the order of the logs."""
        files = self._coming[len(self.given) :][:count]
        self.given += files
        return files

    def land(self, watching: Watching, rnd: random.Random) -> None:
        """Let one to three files land."""
        for kind, path in self.next_files(rnd.choice((1, 2, 2, 3))):
            watching.land(kind, path)

    def watching(self, **more: str) -> Watching:
        """Make a watcher on the landing folder."""
        return Watching(self.home, self.landing, **self.clock.environment, **more)


@contextmanager
def chaos_environment(folder: Path, seed: int, files: int) -> Iterator[ChaosEnvironment]:
    """Provide an environment with a world of so many files of each kind until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    disk = Disk(folder / "home")
    try:
        with (
            receiving(draw=random.Random(seed)) as receiver,
            moto_server() as url,
            bad_store(url) as store,
            _environment(receiver, store, disk),
        ):
            uploader = Uploader(url)
            uploader.new_bucket()
            world = _written(folder / "world", seed, files)
            home = _home(folder, disk, world)
            landing, clock = landing_folder(folder / "landing"), Clock(folder)
            yield ChaosEnvironment(seed, folder, home, landing, world, disk, clock, receiver, store, uploader)
    except BaseException:
        shutil.copytree(disk.folder, folder / "home-as-it-was")
        raise
    finally:
        disk.unmount()


def _written(folder: Path, seed: int, files: int) -> worlds.WrittenWorld:
    """Write a world cut at random; some files may be empty."""
    rnd = random.Random(seed)
    things, asked = worlds.object_log(rnd, ROWS * files), requests_of_all_kinds(rnd, ROWS * files)
    worlds._keep_off_circle_edges(things, asked)
    folder.mkdir()
    return worlds.write_world(folder, worlds.World(_cut(rnd, things, files), _cut(rnd, asked, files)), seed)


def _cut(rnd: random.Random, rows: worlds.Rows, files: int) -> list[worlds.Rows]:
    edges = [0, *sorted(rnd.randint(0, len(rows)) for _ in range(files - 1)), len(rows)]
    return [rows[low:high] for low, high in zip(edges, edges[1:])]


def _home(folder: Path, disk: Disk, world: worlds.WrittenWorld) -> Home:
    # Compiled kernels stay in their cache: with a new cache each watcher would compile them for a minute.
    settings = {"planner": "kd_tree", "workers": 3, "lateness_seconds": world.lateness_seconds, "max_objects": 60}
    settings["max_ahead_seconds"] = 2 * AHEAD_SECONDS
    settings |= RESTLESS
    home = new_home(disk.folder, **settings, watch_seconds=0.1, cache_dir=str(disk.folder / "node-cache"))
    home.add_sink("files", kind="file", target=str(folder / "delivered"), messages=50)
    home.add_sink("hook", kind="webhook", networks="127.0.0.0/8", timeout_seconds=2, messages=20, tries=2)
    return home


@contextmanager
def _environment(receiver: Receiver, store: BadStore, disk: Disk) -> Iterator[None]:
    """Set the environment variables of the processes under test, and of this one."""
    more = {
        **CREDENTIALS,
        "AWS_ENDPOINT_URL": store.url,
        "AWS_MAX_ATTEMPTS": "2",
        "PSTSTREAM_SINK_HOOK_SECRET": SECRET,
        "PSTSTREAM_SINK_HOOK_TARGET": receiver.url,
        "PSTSTREAM_ENGINE": "spark",
        "PSTSTREAM_SPARK_MASTER": "local[2]",
        "PSTSTREAM_SPARK_DRIVER_MEMORY": "1g",
    }
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def python_workers(watching: Watching) -> list[psutil.Process]:
    """Return Spark's Python workers, children of its daemon."""
    workers = []
    for process in psutil.Process(watching.process.pid).children(recursive=True):
        try:
            parent = process.parent()
            if parent and worker_daemon.__name__ in parent.cmdline() and worker_daemon.__name__ in process.cmdline():
                workers.append(process)
        except psutil.Error:
            continue
    return workers


def jvm_of(watching: Watching) -> psutil.Process:
    """Return the JVM of the watcher."""
    children = psutil.Process(watching.process.pid).children(recursive=True)
    return next(process for process in children if process.name() == "java")


def wait_until_matched(environment: ChaosEnvironment, watching: Watching) -> None:
    """Wait until all that has landed is matched, by a heartbeat that was written after it landed."""
    landed = max((file.stat().st_ctime for file in environment.landing.rglob("*")), default=0.0)
    heart = environment.home.path / "watch.json"
    watching.until(
        lambda pulse: (
            pulse.get("state") == "idle" and not pulse["waiting_files"] and heart.stat().st_mtime > landed + 0.6
        )
    )


def done_files(environment: ChaosEnvironment) -> list[dict[str, Any]]:
    """Return the rows of `files` that are done, in the order of the log."""
    rows = read_table(State(environment.home.path).table(names.FILES)).to_pylist()
    return sorted((row for row in rows if row["status"] == "done"), key=lambda row: int(row["file_seq"]))


def restore(home: Home, backup: Path) -> None:
    """Restore a home as docs/operation.md says, on its own disk."""
    for path in home.path.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(backup, home.path, dirs_exist_ok=True)


def received_messages(environment: ChaosEnvironment) -> dict[str, list[dict[str, Any]]]:
    """Read the messages that each sink received."""
    files = sorted((environment.folder / "delivered").glob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    return {"files": lines, "hook": environment.receiver.taken}
