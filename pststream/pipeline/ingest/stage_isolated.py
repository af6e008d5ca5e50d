"""Read suspect input files one by one in a process of their own, within limits of time and memory.

A file that exceeds a limit, or of which the process dies, has this as its problem; the next file gets a new process.
"""

import datetime as dt
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pststream.errors import InputFileError
from pststream.escape_text import escape_controls
from pststream.pipeline.ingest.stage_file import StagedFile
from pststream.progress import Progress

PROGRAM = "pststream.pipeline.ingest.reader_process"

LOOK_SECONDS = 0.05
"""How often the time and the memory of the process are compared with their limits."""


@dataclass(frozen=True)
class ReadLimits:
    """Seconds and bytes of memory that reading one file may take."""

    seconds: float
    bytes: int


def stage_isolated(
    kind: str, folder: str, at: dt.datetime, files: Sequence[dict[str, Any]], limits: ReadLimits, progress: Progress
) -> list[StagedFile]:
    """Return the staged files of input files (ledger rows), in their order; arguments and errors as of `stage_file`.

    Raises RuntimeError for an unforeseen error that is not of the file.
    """
    staged: list[StagedFile] = []
    while len(staged) < len(files):
        with _reader_process() as reader:
            for file in files[len(staged) :]:
                progress(escape_controls(f"{file['path']}: reading it in a process of its own"))
                try:
                    staged.append(reader.stage((kind, folder, at, file), file["path"], limits))
                except InputFileError as error:
                    progress(escape_controls(f"{file['path']}: {error.reason}"))
                    problem = (error.path, error.reason, error.hint)
                    staged.append(StagedFile(file["file_seq"], (), 0, None, problem))
                    break
    return staged


@contextmanager
def _reader_process() -> Iterator["_Reader"]:
    """Start a process that reads files, and wait until it is ready; kill it at the end of the block."""
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
            yield _Reader(process, here)
        finally:
            process.kill()
            process.wait()


class _Reader:
    """A process that reads files, and the connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection) -> None:
        self._process, self._connection = process, connection
        try:
            connection.recv()
        except (EOFError, ConnectionError):
            raise RuntimeError(f"the process that reads files {_describe_end(process.wait())} at its start") from None

    def stage(self, arguments: tuple[Any, ...], path: str, limits: ReadLimits) -> StagedFile:
        """Return the file that `stage_file` stages in the process.

        Raises InputFileError if the process dies or exceeds a limit; it is of no more use then.
        """
        try:
            self._connection.send(arguments)
            self._wait(path, limits)
            answer = self._connection.recv()
        except (EOFError, ConnectionError):
            raise InputFileError(path, f"its reader {_describe_end(self._process.wait())}") from None
        if isinstance(answer, StagedFile):
            return answer
        if isinstance(answer, MemoryError):
            raise InputFileError(path, "reading it needs more memory than there is", "split it")
        raise answer

    def _wait(self, path: str, limits: ReadLimits) -> None:
        until = time.monotonic() + limits.seconds
        while not self._connection.poll(LOOK_SECONDS):
            if time.monotonic() > until:
                reason = f"reading it takes more than {limits.seconds:,} seconds"
                raise InputFileError(path, reason, "if it is sound, split it, or raise the setting read_seconds")
            if _used_bytes(self._process.pid) > limits.bytes:
                reason = f"reading it takes more than {limits.bytes:,} bytes of memory"
                raise InputFileError(path, reason, "if it is sound, split it, or raise the setting read_memory_bytes")


def _used_bytes(process: int) -> int:
    """Return the memory that a process has for itself, in memory or swapped out; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "VmSwap:")))


def _describe_end(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
