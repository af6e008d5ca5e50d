"""Run commands in processes of their own, forked from one that has loaded the program, so each starts at once."""

import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.warm_program"])


class CommandProcess:
    """A running command, whose outputs are appended to files; without a file they are dropped."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        environment: Mapping[str, str],
        out: str | Path = os.devnull,
        err: str | Path = os.devnull,
        folder: str | Path = ROOT,
    ) -> None:
        words = [str(argument) for argument in arguments]
        given = (words, dict(environment), str(out), str(err), str(folder))
        self._process = SERVER.Process(target=run_command, args=given, daemon=True)
        self._process.start()

    def poll(self) -> int | None:
        """Return the exit code, minus the signal's number if one ended it; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; return the exit code."""
        self._process.join(timeout)
        code = self.poll()
        assert code is not None, f"it still runs after {timeout} s"
        return code

    def kill(self) -> None:
        """Kill it, if it still runs, and wait for its end."""
        self._process.kill()
        self.wait()


def run_command(arguments: list[str], environment: dict[str, str], out: str, err: str, folder: str) -> None:
    """Run a command to the end of this process."""
    for path, number in ((out, 1), (err, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    sys.argv = ["pststream", *arguments]
    from pststream.cli.main import entry

    entry()
