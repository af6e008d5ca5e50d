"""Lock a home, append a row, and pause at a point until a line arrives on standard input; start such a process.

    python -m tests.lease_holder ADDRESS POINT SECONDS

POINT: `held`, before the table is read; `checked`, between its reading and the commit; `blind`, as `held`, with a clock
that stands still too; `runner`, as `held`, with the lock of the runner; `forked`, as `held`, with a child process that
was forked meanwhile and outlives its parent. After `unlocked-` the lock of the file is gone, as a server of NFS takes
it from a machine that it cannot reach. The process prints POINT there, and at the end `committed` or the error.
"""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pststream.base import names
from pststream.base.errors import PstError
from pststream.state import ledger_tables, locks
from pststream.state.home import RUNNER, Home

ROOT = Path(__file__).parents[1]


def main(address: str, point: str, seconds: str) -> None:
    """Lock the home, wait at the point, append."""
    locks.LEASE_SECONDS, locks.RENEW_SECONDS = float(seconds), float(seconds) / 4
    home, tokens = Home(address), locks.with_fencing_tokens

    def checked(*arguments: object) -> object:
        result = tokens(*arguments)  # type: ignore[arg-type]
        wait(point)
        return result

    if point.endswith("checked"):
        locks.with_fencing_tokens = checked  # type: ignore[assignment]
    if point == "blind":
        locks._clock = lambda: 0.0
    try:
        with home.locked(RUNNER if point == "runner" else ""):
            if not point.endswith("checked"):
                wait(point)
            ledger_tables.append(
                home,
                names.VOCABULARY,
                [{"plan_version": 1, "term_id": 1, "term": "of the first", "objects": 1, "subscriptions": 1}],
            )
        print("committed", flush=True)
    except PstError as error:
        print(f"{type(error).__name__}: {error.args[0]}", flush=True)


def wait(point: str) -> None:
    """Print the point, and continue at the next line of standard input."""
    if point.startswith("unlocked-"):
        for file in locks._open_files:
            fcntl.flock(file, fcntl.LOCK_UN)
    if point == "forked" and os.fork() == 0:
        while os.getppid() != 1 and time.sleep(0.01) is None:
            pass
        time.sleep(2.0)
        os._exit(0)
    print(point, flush=True)
    sys.stdin.readline()


class Holder:
    """Another process that has reached its point."""

    def __init__(self, home: Home, point: str, seconds: float) -> None:
        command = [sys.executable, "-m", "tests.lease_holder", home.path, point, str(seconds)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        assert self._line() == point

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def go_on(self) -> str:
        """Let it go on; return its last word."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def holder(home: Home, point: str, seconds: float = 2.0) -> Iterator[Holder]:
    """Start a process that holds the home, with leases of so many seconds; kill it at the end."""
    process = Holder(home, point, seconds)
    try:
        yield process
    finally:
        process.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
