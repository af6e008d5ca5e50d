"""A watcher in a process of its own, for tests: started, fed, asked how it is, ended."""

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

from pststream.names import HEARTBEAT
from pststream.storage.registry import files_at
from tests.commands import ENTRY, ROOT, Home

SECONDS = 400.0
"""Long enough for a machine that has much else to do."""


class Watching:
    """`pststream run LANDING --watch` from `with` on; killed at its end if it still runs."""

    def __init__(self, home: Home, landing: Path, **environment: str) -> None:
        self.home, self.landing = home, landing
        self._files = files_at(str(home.path))
        self._environment = {**os.environ, "PSTSTREAM_SPARK_MASTER": "local[2]", **environment}

    def __enter__(self) -> "Watching":
        self._log = self.landing.parent / f"{self.landing.name}-watch.log"
        command = [sys.executable, "-c", ENTRY, "run", str(self.landing), "--watch", "--json", "--home", self.home.path]
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
        """What this one and those before have said."""
        return self._log.read_text("utf-8")

    @property
    def pulse(self) -> dict[str, Any]:
        """Its heartbeat; empty before the first."""
        try:
            heartbeat: dict[str, Any] = json.loads(self._files.read(HEARTBEAT))
        except FileNotFoundError:
            return {}
        return heartbeat

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Its heartbeat as soon as something holds of it."""
        deadline = time.monotonic() + SECONDS
        while not holds(pulse := self.pulse):
            assert self.process.poll() is None, f"it has ended with {self.process.returncode}:\n{self.log[-3000:]}"
            assert time.monotonic() < deadline, f"{pulse}\n{self.log[-3000:]}"
            time.sleep(0.05)
        return pulse

    def until_idle(self, batches: int = 0) -> dict[str, Any]:
        """Its heartbeat when all that landed is matched, after so many batches at least."""
        return self.until(
            lambda pulse: pulse.get("state") == "idle" and not pulse["waiting_files"] and pulse["batches"] >= batches
        )

    def land(self, kind: str, file: Path) -> None:
        """Lay a file as producers should: written beside, then renamed."""
        target = self.landing / kind / file.name
        shutil.copyfile(file, target.with_name("." + target.name))
        os.replace(target.with_name("." + target.name), target)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, Any, float]:
        """Ask it to end: its exit code, what it printed, the seconds that it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, json.loads(out) if out.strip() else None, time.monotonic() - began


def landing_folder(path: Path) -> Path:
    """A new one."""
    for kind in ("objects", "requests"):
        (path / kind).mkdir(parents=True)
    return path
