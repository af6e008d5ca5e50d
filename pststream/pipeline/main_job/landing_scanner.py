"""Scan a local landing folder for `pststream run --watch`: return new or changed files that are written completely."""

import math
import os
import stat
import time
from collections.abc import Collection
from pathlib import Path

from pststream.input.input_files import files_below, has_format
from pststream.pipeline.ingest.local_files import refusal
from pststream.pipeline.questions.question_ledger import FOLDER as QUESTIONS

KINDS = ("requests", "objects")
"""Subfolders of a landing folder with files to ingest, in the order in which they are read."""

RETRY_SECONDS = 60.0
"""Time after which a file that could not be opened is returned again."""

LONGEST_WAIT = 60.0
"""Seconds that a file of questions waits at most for files that have landed before it; one of them may grow all day."""

Stamp = tuple[int, int, int, int, int]
"""Inode, mode, size, times of the last change of content and of inode: one of them changes when the file does."""


class LandingScanner:
    """Scans a landing folder again and again, and returns each file when it is ready; keeps a stamp of each file.

    A file is ready when scans that are `stable_seconds` apart or more, and all scans in between, find the same stamp,
    so a file that is still being written waits. A file of questions also waits for the files of objects and requests
    that have landed with it or before it, LONGEST_WAIT at most. A file is returned until `mark_ingested`, and again
    when it changes after that.

    format              of the objects; None: of any known one
    scan_seconds        how long the last scan took
    has_unstable_files  whether the last scan found new or changed files that are not ready
    """

    def __init__(self, landing: str, format: str | None = None, stable_seconds: float = 0.0) -> None:
        self._stable_seconds = stable_seconds
        self._stable_since: dict[str, float] = {}  # of the files of the last scan
        self._landing, self._format = Path(landing), format
        self._last_stamps: dict[str, Stamp] = {}
        self._ingested: dict[str, Stamp] = {}
        self._landed_at: dict[str, float] = {}  # of files that are not matched yet
        self._retry_at: dict[str, float] = {}
        self._questions: set[str] = set()
        self._scanned_at = time.monotonic()
        self.scan_seconds = 0.0
        self.has_unstable_files = False

    def scan(self) -> dict[str, list[str]]:
        """Return the files that are ready, by kind, in the order of their names; kinds without any are left out."""
        now = time.monotonic()
        # Questions are listed first, so that this scan finds the objects that have landed before them.
        questions = {QUESTIONS: _stamps(self._landing / QUESTIONS, None)}
        files = {kind: _stamps(self._landing / kind, self._format if kind == "objects" else None) for kind in KINDS}
        files |= questions
        self._questions = set(files[QUESTIONS])
        stamps = {path: stamp for of_kind in files.values() for path, stamp in of_kind.items()}
        for path in [path for path, retry_at in self._retry_at.items() if retry_at <= now]:
            del self._retry_at[path]
            self._ingested.pop(path, None)
        self._ingested = {path: stamp for path, stamp in self._ingested.items() if path in stamps}
        new = {path for path, stamp in stamps.items() if self._ingested.get(path) != stamp}
        removed = [path for path in self._landed_at if path not in new and path not in self._ingested]
        for path in removed:
            del self._landed_at[path]
        for path in new:
            self._landed_at.setdefault(path, now)
        seen = {path for path, stamp in stamps.items() if self._last_stamps.get(path) == stamp}
        self._stable_since = {path: self._stable_since[path] if path in seen else now for path in stamps}
        stable = {path for path in new & seen if now - self._stable_since[path] >= self._stable_seconds}
        not_ingested = (self._landed_at[path] for path in new - self._questions)
        first = min(not_ingested, default=math.inf)
        landed = {path: self._landed_at[path] for path in stable & self._questions}
        stable -= {path for path, at in landed.items() if at >= first and now - at < LONGEST_WAIT}
        ready = {kind: [path for path in of_kind if path in stable] for kind, of_kind in files.items()}
        self.has_unstable_files = sum(map(len, ready.values())) < len(new)
        self._last_stamps, self._scanned_at = stamps, now
        self.scan_seconds = time.monotonic() - now
        return {kind: paths for kind, paths in ready.items() if paths}

    def folder(self, kind: str) -> str:
        """Return the folder with the files of a kind."""
        return str(self._landing / kind)

    def mark_ingested(self, paths: list[str], passed_over: Collection[str] = ()) -> None:
        """Record that these files were ingested as the last scan found them.

        passed_over: absolute paths of files among them that could not be opened or changed meanwhile. These files are
        returned again after RETRY_SECONDS or when they change. They count as not matched, except links out of the
        landing folder and names that are refused: whoever lands one must not make the watcher seem late.
        """
        # A file may have been removed before a later scan.
        self._ingested.update({path: self._last_stamps[path] for path in paths if path in self._last_stamps})
        retry_at = time.monotonic() + RETRY_SECONDS
        for path in paths:
            self._retry_at.pop(path, None)
            if str(Path(path).absolute()) in passed_over:
                self._retry_at[path] = retry_at
                if refusal(path, self.folder(Path(path).relative_to(self._landing).parts[0])):
                    self._landed_at.pop(path, None)

    def mark_matched(self) -> None:
        """Record that all ingested files are matched."""
        for path in [path for path in self._landed_at if path in self._ingested and path not in self._retry_at]:
            del self._landed_at[path]

    @property
    def waiting_files(self) -> int:
        """The number of files to ingest that have landed and are not matched."""
        return len(self._landed_at.keys() - self._questions)

    @property
    def matched_until(self) -> float:
        """The time (of `time.monotonic`) up to which all landed files are matched."""
        landed = (at for path, at in self._landed_at.items() if path not in self._questions)
        return min(landed, default=self._scanned_at)


def _stamps(folder: Path, format: str | None) -> dict[str, Stamp]:
    """Return the stamps of the regular files below a folder, sorted by path; of one format if `format` is given."""
    stamps = {}
    for path in files_below(folder):
        if not has_format(path, format):
            continue
        try:
            status = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            stamps[path] = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return stamps
