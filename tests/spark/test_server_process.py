"""The server of a process ends with it, in whatever way; a process does not wait for a server that has died."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.deep]

PROGRAM = """
import sys, time
from pststream.engine.running_engine import get_engine
from pststream.engine.spark_session import _Spark
from pststream.settings import Settings

engine = get_engine(Settings(engine="spark", spark_master="local[1]"))
engine.run_tasks([1], lambda number: number)
print(_Spark.server._process.pid, flush=True)
engine.run_tasks([300.0], time.sleep)
"""


def wait_until(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not done():
        assert time.monotonic() < until
        time.sleep(0.1)


def is_gone(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_killed_process_leaves_no_server() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        group = int(process.stdout.readline())
        assert not is_gone(group)
        process.kill()
        wait_until(lambda: is_gone(group))


def test_a_process_whose_server_is_killed_ends_with_an_error() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        os.killpg(int(process.stdout.readline()), signal.SIGKILL)
        wait_until(lambda: process.poll() is not None)
        assert process.returncode == 1
