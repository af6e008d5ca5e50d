"""Node-local cache of segments: arrays derived from immutable data files, mapped by every task of the node.

A file of a Delta table never changes, so its name is the key. Entries are written whole or not at all
(matching/arrays_file.py); a torn one is built again; the least recently used ones go when the folder outgrows its
bound, which is safe at any time, since a mapped file lives until its last reader lets go.
"""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pststream.kernels.compile import cache_folder
from pststream.matching.arrays_file import TornFileError, map_arrays, write_arrays
from pststream.matching.deletions import COLUMNS as DELETION_COLUMNS
from pststream.matching.deletions import build_deletions
from pststream.matching.segments import COLUMNS, Segment, build_segment

LAYOUT = 2
"""Part of each entry's name: a change of the arrays makes old entries unreachable."""

KEPT_IN_PROCESS = 4096


class SegmentCache:
    """Arrays of data files, by path; one instance a process."""

    def __init__(self, folder: str, max_bytes: int) -> None:
        base = Path(folder) if folder else Path.home() / ".cache" / "pststream"
        self.folder = base / f"segments-{LAYOUT}-{cache_folder().name}"
        self.max_bytes = max_bytes
        self._kept: dict[str, dict[str, np.ndarray]] = {}
        self._built: dict[str, float] = {}

    def take_built(self) -> dict[str, float]:
        """CPU seconds of each entry, by path, that this process has built since it was last asked."""
        built, self._built = self._built, {}
        return built

    def segments(self, paths: frozenset[str]) -> dict[str, Segment]:
        """The segments of many files. Each process goes through them in an order of its own, so that processes that
        start together on new files build different ones.
        """
        return {path: self.segment(path) for path in sorted(paths, key=lambda path: hash((os.getpid(), path)))}

    def segment(self, path: str) -> Segment:
        """The segment of a data file of pieces."""
        return Segment(**self._arrays(path, lambda: build_segment(_read(path, COLUMNS))._asdict()))

    def deletions(self, path: str) -> dict[str, np.ndarray]:
        """Keys and ends of a data file of deletions (matching/deletions.py)."""
        return self._arrays(path, lambda: build_deletions(_read(path, DELETION_COLUMNS)))

    def _arrays(self, path: str, build: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        if path in self._kept:
            return self._kept[path]
        entry = self.folder / hashlib.sha256(path.encode()).hexdigest()[:32]
        try:
            arrays = map_arrays(entry)
            os.utime(entry)
        except (FileNotFoundError, TornFileError):
            began = time.thread_time()
            write_arrays(entry, build())
            self._built[path] = time.thread_time() - began
            arrays = map_arrays(entry)
            self._evict(keep=entry)
        if len(self._kept) >= KEPT_IN_PROCESS:
            self._kept.clear()
        self._kept[path] = arrays
        return arrays

    def _evict(self, keep: Path) -> None:
        entries = []
        for entry in os.scandir(self.folder):
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            if entry.name.startswith(".writing-") and status.st_mtime > time.time() - 3600:
                continue
            entries.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.max_bytes:
                break
            if path != str(keep):
                Path(path).unlink(missing_ok=True)
                total -= size


def _read(path: str, columns: tuple[str, ...]) -> pa.Table:
    return pq.read_table(path, columns=list(columns), partitioning=None)
