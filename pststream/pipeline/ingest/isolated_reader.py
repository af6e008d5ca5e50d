"""Read suspect files one by one in a separate process, within limits of time and memory.

`reader_process.py` is the code of that process. If a file exceeds a limit, or the process dies while it reads the file,
this is reported as the problem of the file.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

from pststream.base.errors import InputFileError
from pststream.base.format_values import counted
from pststream.settings import Settings

PROGRAM = "pststream.pipeline.ingest.reader_process"

LOOK_SECONDS = 0.05
"""How often the time and the memory of the process are compared with their limits."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class ReadLimits:
    """Seconds and bytes of memory that reading one file may take."""

    seconds: float
    bytes: int

    @classmethod
    def of(cls, settings: Settings) -> "ReadLimits":
        """Return the limits that the settings give."""
        return cls(settings.read_seconds, settings.read_memory_bytes)


@contextmanager
def isolated_reader(function: Callable[..., Answer]) -> Iterator["IsolatedReader[Answer]"]:
    """Start a process that reads files with a function of a module, and wait until it is ready; kill it at the end of
    the block.
    """
    here, there = multiprocessing.Pipe()
    with here:
        with there:
            process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, str(there.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=[there.fileno()],
            )
        try:
            yield IsolatedReader(process, here, function)
        finally:
            process.kill()
            process.wait()


class IsolatedReader(Generic[Answer]):
    """A process that reads files, and the connection to it.

    pid  of the process
    """

    def __init__(
        self, process: subprocess.Popen[bytes], connection: Connection, function: Callable[..., Answer]
    ) -> None:
        self._process, self._connection = process, connection
        self.pid = process.pid
        try:
            connection.send(function)
            connection.recv()
        except (EOFError, ConnectionError):
            raise RuntimeError(f"the process that reads files {_describe_end(process.wait())} at its start") from None

    def read(self, arguments: tuple[Any, ...], path: str, limits: ReadLimits) -> Answer:
        """Return what the function, which reads the file at `path`, returns for these arguments in the process.

        Raises InputFileError if the function does, or if the process dies or exceeds a limit; it is of no more use
        then. Raises RuntimeError for an unforeseen error that is not of the file.
        """
        try:
            self._connection.send(arguments)
            self._wait(path, limits)
            answer, error = self._connection.recv()
        except (EOFError, ConnectionError):
            raise InputFileError(path, f"its reader {_describe_end(self._process.wait())}") from None
        if isinstance(error, MemoryError):
            raise InputFileError(path, "reading it needs more memory than there is", "split it")
        if error is not None:
            raise error
        result: Answer = answer
        return result

    def _wait(self, path: str, limits: ReadLimits) -> None:
        until = time.monotonic() + limits.seconds
        while not self._connection.poll(LOOK_SECONDS):
            if time.monotonic() > until:
                reason = f"reading it takes more than {counted(limits.seconds, 'second')}"
                raise InputFileError(path, reason, "if it is sound, split it, or raise the setting read_seconds")
            if used_bytes(self._process.pid) > limits.bytes:
                reason = f"reading it takes more than {limits.bytes:,} bytes of memory"
                raise InputFileError(path, reason, "if it is sound, split it, or raise the setting read_memory_bytes")


def used_bytes(process: int) -> int:
    """Return the memory that a process has for itself, in memory or swapped out; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "VmSwap:")))


def _describe_end(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
