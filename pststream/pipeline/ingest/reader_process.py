"""Read input files one after the other in this process, which reads nothing else and may die of any of them.

`stage_isolated.py` starts it, sends it files and limits its time and memory. It ends with the process that started it.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from pststream.errors import PstError
from pststream.pipeline.ingest.stage_file import StagedFile, stage_file

_PR_SET_PDEATHSIG = 1


def read_requested(connection: Connection) -> None:
    """Say that this process is ready; stage each file whose arguments arrive, and send the staged file or the error."""
    connection.send(None)
    while True:
        try:
            arguments = connection.recv()
        except EOFError:
            return
        connection.send(_stage(arguments))


def _stage(arguments: tuple) -> StagedFile | PstError | MemoryError | RuntimeError:
    """Return the staged file, or an error that can be pickled."""
    try:
        return stage_file(*arguments)
    except PstError as error:
        return error
    except MemoryError:
        return MemoryError()
    except Exception as error:
        return RuntimeError(f"{type(error).__name__}: {error}")


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
