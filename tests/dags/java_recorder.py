"""Put a `java` first on the path of jobs that records its calls, so that tests see whether a job starts a JVM."""

import os
import shutil
import stat
from pathlib import Path

import pytest


class JavaRecorder:
    """Records the arguments of each call of `java`; the call then runs the real `java`, or fails."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, works: bool) -> None:
        self._calls = folder / "calls"
        real = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin{os.pathsep}{os.environ['PATH']}")
        (folder / "bin").mkdir(parents=True)
        java = folder / "bin" / "java"
        ending = f'exec "{real}" "$@"' if works else "exit 1"
        java.write_text(f'#!/bin/sh\necho "$@" >> "{self._calls}"\n{ending}\n', "utf-8")
        java.chmod(java.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("JAVA_HOME", str(folder))
        monkeypatch.setenv("PATH", os.pathsep.join([str(java.parent), os.environ["PATH"]]))

    @property
    def calls(self) -> list[str]:
        """The arguments of each call so far."""
        return self._calls.read_text("utf-8").splitlines() if self._calls.exists() else []
