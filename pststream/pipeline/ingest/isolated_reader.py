"""Read suspect files one by one in a separate process, within limits of time and memory.

`reader_process.py` is the code of that process. If a file exceeds a limit, or the process dies while it reads the file,
this is reported as the problem of the file, and the next file gets a new process. A note in the home says which files
are being read, so that a later ingest knows those that were read when a process died.
"""

import datetime as dt
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

from pststream.base.errors import InputFileError, PstError
from pststream.base.progress import Progress
from pststream.base.texts import counted, escape_controls
from pststream.pipeline.ingest.fetch_objects import OfferedFile
from pststream.pipeline.ingest.stage_file import StagedFile, stage_file
from pststream.settings import Settings
from pststream.state.home import Home

PROGRAM = "pststream.pipeline.ingest.reader_process"

LOOK_SECONDS = 0.05
"""How often the time and the memory of the process are compared with their limits."""

Answer = TypeVar("Answer")


@contextmanager
def isolated_reader(function: Callable[..., Answer]) -> Iterator["IsolatedReader[Answer]"]:
    """Start a process that reads files with a function of a module, and wait until it is ready; kill it at the end of
    the block.
    """
    here, there = multiprocessing.Pipe()
    with here:
        with there:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", PROGRAM, str(there.fileno()), str(os.getpid())],
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

    def read(self, arguments: tuple[Any, ...], path: str, settings: Settings) -> Answer:
        """Return what the function, which reads the file at `path`, returns for these arguments in the process.

        Raises InputFileError if the function does, or if the process dies or exceeds a limit of the settings; it is of
        no more use then. Raises RuntimeError for an unforeseen error that is not of the file.
        """
        try:
            self._connection.send(arguments)
            self._wait(path, settings)
            answer, error = self._connection.recv()
        except (EOFError, ConnectionError):
            raise InputFileError(path, f"its reader {_describe_end(self._process.wait())}") from None
        if isinstance(error, MemoryError):
            raise InputFileError(path, "reading it needs more memory than there is", "split it")
        if error is not None:
            raise error
        result: Answer = answer
        return result

    def _wait(self, path: str, settings: Settings) -> None:
        until = time.monotonic() + settings.read_seconds
        while not self._connection.poll(LOOK_SECONDS):
            if time.monotonic() > until:
                reason = f"reading it takes more than {counted(settings.read_seconds, 'second')}"
                raise InputFileError(path, reason, "if it is sound, split it, or raise the setting read_seconds")
            if used_bytes(self._process.pid) > settings.read_memory_bytes:
                reason = f"reading it takes more than {settings.read_memory_bytes:,} bytes of memory"
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


def stage_isolated(
    kind: str, folder: str, at: dt.datetime, files: Sequence[dict[str, Any]], settings: Settings, progress: Progress
) -> list[StagedFile]:
    """Return the staged files of input files (ledger rows), in their order; arguments and errors as of `stage_file`.

    Raises RuntimeError for an unforeseen error that is not of the file.
    """
    staged: list[StagedFile] = []
    while len(staged) < len(files):
        with isolated_reader(stage_file) as reader:
            for file in files[len(staged) :]:
                progress(escape_controls(f"{file['path']}: reading it in a process of its own"))
                try:
                    staged.append(reader.read((kind, folder, at, file), file["path"], settings))
                except InputFileError as error:
                    progress(escape_controls(f"{file['path']}: {error.reason}"))
                    problem = (error.path, error.reason, error.hint)
                    staged.append(StagedFile(file["file_seq"], (), 0, None, problem))
                    break
    return staged


DEAD_TRIES = 2
"""After so many dead tries a file is read in a process of its own. One may be a kill of the process by somebody."""

SETTLED = 1 << 20
"""Dead tries that the note has of such files once objects were ingested to the end after them."""

MAX_FILES = 10_000
"""Files in the note at most besides those that are offered: files that nobody offers again would stay for ever."""

NOTE = "reading.json"


@contextmanager
def noted_reading(
    home: Home,
    hashes: Collection[str],
    note: str = NOTE,
    passing: tuple[type[BaseException], ...] = (PstError,),
) -> Iterator[dict[str, int]]:
    """Note in a block that files with these hashes are read; yield the dead tries of those with DEAD_TRIES or more.

    The note is flushed to disk before the block. A dead try, in which the process ended or an unexpected error was
    raised, counts for all files that were read in it. A block that ends, or raises one of the errors `passing`, counts
    for none of them; files with DEAD_TRIES, or SETTLED, stay in the note, in case they are offered again.

    note: name of the note in the home
    """
    before = _read_note(home, note)
    suspects = {sha256: tries for sha256 in hashes if (tries := before.get(sha256, 0)) >= DEAD_TRIES}
    tried = {sha256: before.get(sha256, 0) + 1 for sha256 in hashes}
    rest = {sha256: tries for sha256, tries in before.items() if sha256 not in tried}
    for sha256 in list(rest)[:-MAX_FILES]:
        del rest[sha256]
    if tried:
        _write_note(home, note, rest | tried)
    try:
        yield suspects
    except passing:
        _write_note(home, note, rest | suspects)
        raise
    settled = {sha256: tries if tries >= SETTLED else DEAD_TRIES for sha256, tries in suspects.items()}
    _write_note(home, note, rest | settled)


def group_by_dead_tries(home: Home, files: Sequence[OfferedFile]) -> list[tuple[int, list[OfferedFile]]]:
    """Return files by the dead tries that the note has of them, up to DEAD_TRIES, the most first; files with as many
    keep their order.
    """
    tries = _read_note(home, NOTE)
    groups: dict[int, list[OfferedFile]] = {}
    for file in files:
        groups.setdefault(min(tries.get(file.sha256, 0), DEAD_TRIES), []).append(file)
    return sorted(groups.items(), reverse=True)


def has_suspects(home: Home) -> bool:
    """Whether files of any kind have DEAD_TRIES since objects were last ingested to the end."""
    return any(DEAD_TRIES <= tries < SETTLED for tries in _read_note(home, NOTE).values())


def settle_suspects(home: Home) -> None:
    """Note that objects were ingested to the end."""
    if has_suspects(home):
        tries = _read_note(home, NOTE)
        _write_note(home, NOTE, {one: SETTLED if tries[one] >= DEAD_TRIES else tries[one] for one in tries})


def _read_note(home: Home, note: str) -> dict[str, int]:
    """Return the dead tries by hash; none if there is no note, or none that can be read."""
    try:
        return {str(sha256): int(count) for sha256, count in json.loads(home.files.read(note)).items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return {}


def _write_note(home: Home, note: str, tries: dict[str, int]) -> None:
    """Replace the note, or remove it if it would be empty."""
    if tries:
        home.files.write(note, json.dumps(tries).encode())
    else:
        home.files.delete([note])
