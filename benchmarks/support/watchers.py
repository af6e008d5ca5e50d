"""Run `pststream run --watch` as a process of its own in a benchmark, and read when it has matched which files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from pststream.base.errors import PstError
from pststream.base.names import HEARTBEAT
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.ledgers import log_key, read_batches, read_files

PATIENCE, SECONDS_TO_STOP = 900.0, 60.0
COMMAND = (sys.executable, "-c", "from pststream.cli.main import entry; entry()")
"""`pststream` in a process of its own; arguments follow."""


def start_watcher(home: Home, settings: Settings, landing: Path, **more: str) -> subprocess.Popen[bytes]:
    """Start a watcher with the engine and the master of these settings; `more`: of its environment."""
    command = [*COMMAND, "run", str(landing), "--watch", "--quiet", "--home", home.path]
    environment = os.environ | {"PSTSTREAM_SPARK_MASTER": settings.spark_master, "PSTSTREAM_ENGINE": settings.engine}
    return subprocess.Popen(command, env=environment | more, stdout=subprocess.DEVNULL)


@contextmanager
def running_watcher(home: Home, settings: Settings, landing: Path, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a watcher during a block, which begins when the watcher is idle; `more`: as in `start_watcher`."""
    watcher = start_watcher(home, settings, landing, **more)
    try:
        wait(watcher, lambda: idle_watcher(home) == watcher.pid, "the watcher does not become idle")
        yield watcher
        watcher.send_signal(signal.SIGTERM)
        watcher.wait(PATIENCE)
    finally:
        watcher.kill()
        watcher.wait()


class WatcherService:
    """A watcher that is started again when it has died, as a service manager does it."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._start, self.process = start, start()
        self.restarted_at = list[float]()

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return len(self.restarted_at)

    def revive(self) -> None:
        """Start the watcher again if it has died."""
        if self.process.poll() is not None:
            self.process = self._start()
            self.restarted_at.append(time.time())

    def wait(self, condition: Callable[[], bool], error: str, patience: float = PATIENCE) -> None:
        """Wait until a condition holds. Raises PstError with `error` after so many seconds."""
        deadline = time.monotonic() + patience
        while not condition():
            self.revive()
            if time.monotonic() > deadline:
                raise PstError(error, "run `pststream run LANDING --watch` by itself to see its errors")
            time.sleep(1.0)

    def stop(self) -> None:
        """Let the watcher finish its step, and end it."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(SECONDS_TO_STOP)
        self.process.kill()
        self.process.wait()


def wait(watcher: subprocess.Popen[bytes], condition: Callable[[], bool], error: str) -> None:
    """Wait until a condition holds. Raises PstError with `error` if the watcher ends before, or after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if watcher.poll() is not None or time.monotonic() > deadline:
            raise PstError(error, "run `pststream run LANDING --watch` by itself to see its errors")
        time.sleep(1.0)


def wait_for_matches(watcher: subprocess.Popen[bytes], home: Home, landed: Mapping[str, float]) -> np.ndarray:
    """Wait until the landed files are matched; return the delay of each in seconds: float64[n].

    landed  time of each landing (seconds since 1970), by file name
    """
    wait(watcher, lambda: landed.keys() <= matched(home).keys(), "not all files are matched")
    ends = matched(home)
    return np.array([ends[name] - at for name, at in landed.items()])


def idle_watcher(home: Home) -> int | None:
    """Return the process id of the watcher if it is idle; None if it is not, or if there is none."""
    try:
        heartbeat: dict[str, Any] = json.loads(Path(home.path, HEARTBEAT).read_text("utf-8"))
    except FileNotFoundError:
        return None
    return heartbeat["process"] if heartbeat["state"] == "idle" else None


def matched(home: Home) -> dict[str, float]:
    """Return the end time of the batch with the last row of each file of objects (seconds since 1970), by file name."""
    done = [b for b in read_batches(home) if b["status"] == "done"]
    ends = np.array([b["objects_to"] for b in done])
    by_name = {}
    for file in read_files(home):
        if (file["kind"], file["status"]) != ("objects", "done"):
            continue
        batch = int(np.searchsorted(ends, log_key(file["file_seq"], file["rows"])))
        if batch < len(done):
            by_name[Path(file["path"]).name] = done[batch]["finished_at"].timestamp()
    return by_name
