"""Write arrays to files that processes map, and keep those built from data files in a bounded folder of the node.

A file of a Delta table never changes, so the paths of the files that an entry is built from are its cache key. An
entry is written whole or not at all; a truncated entry is built again. The least
recently used entries are deleted when the folders of all caches together exceed the bound, which is safe at any time: a
mapped file exists until its last reader closes it.
"""

import errno
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from pststream.base.atomic_files import TEMPORARY_PREFIX, replacing
from pststream.base.errors import RetryableError
from pststream.kernels.compile import cache_folder, node_folder

# Files of arrays

ALIGNMENT = 64


class TornFileError(Exception):
    """The file is incomplete: the caller removes it and builds it again."""


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write `arrays` to `path`, all or nothing: under another name, which is replaced once the file is complete.

    Layout: 16 bytes (length of the header, length of the file; little-endian int64), a JSON header {name: [dtype,
    shape, offset]}, then the arrays, each at a multiple of 64 bytes. The file is not flushed to disk, because it can be
    built again: the recorded length reveals a file that a power cut has truncated.
    """
    entries: dict[str, list[object]] = {}
    offset = 0
    for name, array in arrays.items():
        entries[name] = [array.dtype.str, list(array.shape), offset]
        offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    header = json.dumps(entries).encode()
    header += b" " * (-(16 + len(header)) % ALIGNMENT)
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with replacing(path, several_writers=True, durable=False) as temporary, open(temporary, "wb") as file:
        file.write(np.array([len(header), 16 + len(header) + offset], dtype="<i8").tobytes())
        file.write(header)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            file.write(b"\0" * (-array.nbytes % ALIGNMENT))


def map_arrays(path: Path, *, writable: bool = False) -> dict[str, np.ndarray]:
    """Return the arrays of `path`, mapped; raises FileNotFoundError or TornFileError.

    writable  writes to the arrays change the file; else they are refused
    """
    with open(path, "r+b" if writable else "rb") as file:
        lengths = file.read(16)
        if len(lengths) < 16:
            raise TornFileError(str(path))
        header_bytes, file_bytes = np.frombuffer(lengths, dtype="<i8")
        if os.fstat(file.fileno()).st_size != file_bytes or not 0 < header_bytes < file_bytes + 1:
            raise TornFileError(str(path))
        try:
            entries = json.loads(file.read(int(header_bytes)))
        except ValueError:
            raise TornFileError(str(path)) from None
        whole = np.memmap(file, dtype=np.uint8, mode="r+" if writable else "r") if file_bytes else np.empty(0, np.uint8)
    start = 16 + int(header_bytes)
    arrays = {}
    for name, (dtype, shape, offset) in entries.items():
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        arrays[name] = np.asarray(whole[start + offset : start + offset + size]).view(dtype).reshape(shape)
    return arrays


CHECK_SHARE = 0.01
"""A process checks the size of the folders whenever it has written this share of the bound."""

MAPPED_ENTRIES = 512
"""Entries that a process keeps mapped; the disk space of a deleted entry is freed once no process maps it."""

FOLDERS = "segments-*"
"""Folders of all caches of a node, also those of other versions of the code."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of the system errors of a disk without room for a file."""

Paths = tuple[str, ...]
"""Paths of the data files that an entry is built from, in the order of its rows."""


class ArrayCache:
    """Arrays built from data files, by their paths; one instance for each process.

    folder     of the caches of this node; empty: the default of the node
    max_bytes  bound on the entries of all caches in the folder
    layout     name and version of the arrays, so that code with other arrays reads none of the entries
    """

    def __init__(self, folder: str, max_bytes: int, layout: str) -> None:
        base = Path(folder) if folder else node_folder()
        self.folder = base / f"segments-{layout}-{cache_folder().name}"
        self.max_bytes = max_bytes
        self._mapped: dict[Paths, dict[str, np.ndarray]] = {}
        self._of_thread = threading.local()
        self._written = float(max_bytes)  # so that a new process checks the folder once

    def take_built(self) -> dict[Paths, float]:
        """Return the CPU seconds of each entry that this thread has built since its last call, and forget them."""
        built: dict[Paths, float] = self._of_thread.__dict__.pop("built", {})
        return built

    def arrays(self, paths: Paths, build: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Return the cached arrays of immutable data files; the first process that needs them calls `build`.

        paths: the files, or other texts that identify the arrays

        Raises RetryableError if the disk has no room for them, also without older entries.
        """
        # One look-up: another thread may clear the entries after it.
        mapped = self._mapped.get(paths)
        if mapped is not None:
            return mapped
        entry = self._entry(paths)
        try:
            arrays = map_arrays(entry)
            os.utime(entry)
        except (FileNotFoundError, TornFileError):
            began = time.thread_time()
            arrays = build()
            # Another process may delete the entry, or empty the folder while the entry is being written.
            with suppress(FileNotFoundError):
                self._write(entry, arrays)
                arrays = map_arrays(entry)
            self._of_thread.__dict__.setdefault("built", {})[paths] = time.thread_time() - began
            self._written += sum(array.nbytes for array in arrays.values())
            if self._written > self.max_bytes * CHECK_SHARE:
                self._evict(keep=entry)
                self._written = 0.0
        if len(self._mapped) >= MAPPED_ENTRIES:
            self._mapped.clear()
        self._mapped[paths] = arrays
        return arrays

    def has(self, paths: Paths) -> bool:
        """Whether the node has the arrays of these files."""
        return paths in self._mapped or self._entry(paths).exists()

    def discard(self, paths: Paths) -> None:
        """Delete the arrays of these files; who has them mapped keeps them until then."""
        self._mapped.pop(paths, None)
        self._entry(paths).unlink(missing_ok=True)

    def mapped_others(self, prefix: str, listed: Collection[str]) -> list[Paths]:
        """Return the mapped arrays of files whose paths begin with `prefix` and of which one is not listed."""
        return [
            one for one in list(self._mapped) if any(path.startswith(prefix) and path not in listed for path in one)
        ]

    def _write(self, entry: Path, arrays: dict[str, np.ndarray]) -> None:
        """Write an entry; if the disk has no room for it, delete older entries."""
        try:
            write_arrays(entry, arrays)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            size = sum(array.nbytes for array in arrays.values())
            self._evict(keep=entry, room=size)
            try:
                write_arrays(entry, arrays)
            except OSError as second:
                reason = f"{self.folder.parent}: no room for {size:,} bytes of segments: {second.strerror or second}"
                hint = "make room on this disk, or give a folder on another one in the setting cache_dir"
                raise RetryableError(reason, hint) from None

    def _entry(self, paths: Paths) -> Path:
        return self.folder / hashlib.sha256("\n".join(paths).encode()).hexdigest()[:32]

    def clear(self) -> None:
        """Delete all entries on this node, also those of other homes; they are built again when they are needed."""
        self._mapped.clear()
        for folder in self.folder.parent.glob(FOLDERS):
            for entry in folder.iterdir():
                entry.unlink(missing_ok=True)

    def _evict(self, keep: Path, room: int | None = None) -> None:
        """Delete the least recently used entries beyond the bound, or those that take so much room."""
        entries = []
        # Entries of other versions of the code count too.
        for entry in (entry for folder in self.folder.parent.glob(FOLDERS) for entry in os.scandir(folder)):
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            if entry.name.startswith(TEMPORARY_PREFIX) and status.st_mtime > time.time() - 3600:
                continue
            entries.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in entries)
        most = self.max_bytes if room is None else total - room
        for _, size, path in sorted(entries):
            if total <= most:
                break
            if path != str(keep):
                Path(path).unlink(missing_ok=True)
                total -= size


# Mappings that are kept

Mapped = TypeVar("Mapped")

MOST = 512
"""Files that a process keeps mapped for one use."""


class KeptMappings(Generic[Mapped]):
    """The file that was last mapped at each path, kept from one batch to the next; several threads may use it.

    The first write to each page of a new mapping takes about 2 us. A mapped file keeps its inode, which no other file
    can have meanwhile. So a file that was replaced, or that has another size now, is mapped again.
    """

    def __init__(self) -> None:
        self._kept: dict[Path, tuple[tuple[int, int, int], Mapped]] = {}

    def get(self, path: Path, status: os.stat_result, map_file: Callable[[], Mapped]) -> Mapped:
        """Return the mapping of the file with this status, which is at the path or is to be there."""
        identity = status.st_dev, status.st_ino, status.st_size
        known = self._kept.get(path)
        if known is not None and known[0] == identity:
            return known[1]
        for other in list(self._kept):
            if not os.path.exists(other):
                self._kept.pop(other, None)  # the disk gets its room back
        if len(self._kept) >= MOST:
            self._kept.clear()
        mapped = map_file()
        self._kept[path] = identity, mapped
        return mapped
