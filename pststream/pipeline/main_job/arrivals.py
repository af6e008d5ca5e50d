"""What lands in a folder, told file by file, each once, when nobody writes to it any more."""

import os
import stat
import time
from collections.abc import Collection
from pathlib import Path

from pststream.quality.input_files import files_below, has_format

KINDS = ("requests", "objects")
"""Subfolders of a landing folder, in the order in which they are read."""

AGAIN_SECONDS = 60.0
"""After which a file that could not be opened is tried again."""

Stamp = tuple[int, int, int, int, int]


class Arrivals:
    """The files of a landing folder, as they were when it was last looked into; holds a few words of each.

    format          of the objects; None: of any known one
    look_seconds    how long the last look took
    unsure          whether it found files that the one before had not found as they are

    A file is told when two looks in a row have found the same size and times, so one that is still being written waits;
    and again when it changes after it was taken.
    """

    def __init__(self, landing: str, format: str | None = None) -> None:
        self._landing, self._format = Path(landing), format
        self._seen: dict[str, Stamp] = {}
        self._taken: dict[str, Stamp] = {}
        self._unmatched: dict[str, float] = {}
        self._passed_over: dict[str, float] = {}
        self._looked_at = time.monotonic()
        self.look_seconds = 0.0
        self.unsure = False

    def look(self) -> dict[str, list[str]]:
        """Files that are ready, by kind, in the order of their names; kinds without any are left out."""
        now = time.monotonic()
        found = {kind: _stamps(self._landing / kind, self._format if kind == "objects" else None) for kind in KINDS}
        stamps = {path: stamp for files in found.values() for path, stamp in files.items()}
        for path in [path for path, again in self._passed_over.items() if again <= now]:
            del self._passed_over[path]
            self._taken.pop(path, None)
        self._taken = {path: stamp for path, stamp in self._taken.items() if path in stamps}
        new = {path for path, stamp in stamps.items() if self._taken.get(path) != stamp}
        gone = [path for path in self._unmatched if path not in new and path not in self._taken]
        for path in gone:
            del self._unmatched[path]
        for path in new:
            self._unmatched.setdefault(path, now)
        ready = {
            kind: [p for p in files if p in new and self._seen.get(p) == files[p]] for kind, files in found.items()
        }
        self.unsure = sum(map(len, ready.values())) < len(new)
        self._seen, self._looked_at = stamps, now
        self.look_seconds = time.monotonic() - now
        return {kind: paths for kind, paths in ready.items() if paths}

    def took(self, paths: list[str], passed_over: Collection[str] = ()) -> None:
        """These were ingested, as they were at the last look; but those of `passed_over` (absolute paths) could not
        be opened or changed meanwhile: they are told again after a while, or when they change, and wait until then.
        """
        self._taken.update({path: self._seen[path] for path in paths})
        again = time.monotonic() + AGAIN_SECONDS
        for path in paths:
            self._passed_over.pop(path, None)
            if str(Path(path).absolute()) in passed_over:
                self._passed_over[path] = again

    def matched(self) -> None:
        """All that was ingested is matched."""
        for path in [path for path in self._unmatched if path in self._taken and path not in self._passed_over]:
            del self._unmatched[path]

    @property
    def waiting(self) -> int:
        """Files that have landed and are not matched."""
        return len(self._unmatched)

    @property
    def matched_until(self) -> float:
        """All that had landed at this time, as `time.monotonic` tells it, is matched."""
        return min(self._unmatched.values(), default=self._looked_at)


def _stamps(folder: Path, format: str | None) -> dict[str, Stamp]:
    """The regular files below a folder, of a format if one is given, sorted, with what changes when they do."""
    stamps = {}
    for path in files_below(folder):
        if not has_format(path, format):
            continue
        try:
            found = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode):
            stamps[path] = (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return stamps
