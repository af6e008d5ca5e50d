"""Run a watcher as a separate process in tests: start it, let files land, read its heartbeat, stop it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pststream.base.names import HEARTBEAT
from pststream.storage.registry import files_at, storage_of
from tests.commands import ENTRY, ROOT, Home

SECONDS = 400.0
"""Long enough for a busy machine."""


class Watching:
    """`pststream run LANDING --watch`, started by `with` and killed at its end if it still runs."""

    def __init__(self, home: Home, landing: Path, *options: str, **environment: str) -> None:
        self.home, self.landing, self._options = home, landing, options
        self._files = files_at(str(home.path))
        # Each look at a heartbeat in a bucket is a request, which the store answers in Python.
        self._pause = 0.5 if storage_of(str(home.path)).is_remote else 0.05
        self._environment = {**os.environ, "PSTSTREAM_SPARK_MASTER": "local[2]", **environment}

    def __enter__(self) -> "Watching":
        self._log = self.landing.parent / f"{self.landing.name}-watch.log"
        command = [sys.executable, "-c", ENTRY, "run", str(self.landing), "--watch", "--json", "--home", self.home.path]
        command += self._options
        self._files.delete([HEARTBEAT])
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self._environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def log(self) -> str:
        """The log of this watcher and of those before it."""
        return self._log.read_text("utf-8")

    @property
    def pulse(self) -> dict[str, Any]:
        """The heartbeat; empty before the first."""
        try:
            heartbeat: dict[str, Any] = json.loads(self._files.read(HEARTBEAT))
        except FileNotFoundError:
            return {}
        return heartbeat

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until a condition on the heartbeat is true; return the heartbeat. Fails SECONDS after the last batch."""
        deadline, batch_id = time.monotonic() + SECONDS, None
        while not holds(pulse := self.pulse):
            if pulse.get("batch_id") != batch_id:
                deadline, batch_id = time.monotonic() + SECONDS, pulse.get("batch_id")
            assert self.process.poll() is None, f"it has ended with {self.process.returncode}:\n{self.log[-3000:]}"
            assert time.monotonic() < deadline, f"{pulse}\n{self.log[-3000:]}"
            time.sleep(self._pause)
        return pulse

    def until_idle(self, batches: int = 0) -> dict[str, Any]:
        """Wait until all landed files are matched, after at least so many batches; return the heartbeat."""
        return self.until(
            lambda pulse: pulse.get("state") == "idle" and not pulse["waiting_files"] and pulse["batches"] >= batches
        )

    def land(self, kind: str, file: Path) -> None:
        """Let a file land as producers should: write it under a temporary name, then rename it."""
        target = self.landing / kind / file.name
        shutil.copyfile(file, target.with_name("." + target.name))
        os.replace(target.with_name("." + target.name), target)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, Any, float]:
        """Send a signal; return the exit code, the output and the seconds until the end."""
        began = time.monotonic()
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, json.loads(out) if out.strip() else None, time.monotonic() - began


def landing_folder(path: Path) -> Path:
    """Make a new landing folder."""
    for kind in ("objects", "requests"):
        (path / kind).mkdir(parents=True)
    return path
