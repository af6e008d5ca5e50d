"""Read suspect input files one after the other in a process that does nothing else, since a file may kill it.

`isolated_reader.py` starts it, sends it files and limits its time and memory. It ends with the process that started it.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pststream.base.errors import PstError

_PR_SET_PDEATHSIG = 1


def read_requested(connection: Connection) -> None:
    """Receive a function, and say that this process is ready; call the function with the arguments that arrive, and
    send what it returns and its error.
    """
    function = connection.recv()
    connection.send(None)
    while True:
        try:
            arguments = connection.recv()
        except EOFError:
            return
        connection.send(_call(function, arguments))


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """Return what the function returns, or None and an error that can be pickled."""
    try:
        return function(*arguments), None
    except PstError as error:
        return None, error
    except MemoryError:
        return None, MemoryError()
    except Exception as error:
        return None, RuntimeError(f"{type(error).__name__}: {error}")


def _die_first() -> None:
    """End with the process that started this one, and before any other process if the machine lacks memory."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(OSError):  # not every container lets a process do that
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")


if __name__ == "__main__":
    # A signal for all processes of a terminal or a service says nothing about the file that is read.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    _die_first()
    if os.getppid() == int(sys.argv[2]):
        with Connection(int(sys.argv[1])) as pipe:
            read_requested(pipe)
