"""Return the local input files that can be opened, with the SHA-256 of each, cached while a file is unchanged.

A landing folder may have years of files. The cached hash of a file (state/fetched_files.py) is valid as long as its
stamp: its inode, its size, and the times of its last change.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pststream.errors import InputFileError
from pststream.escape_text import escape_controls
from pststream.pipeline.ingest.fetch_objects import OfferedFile, is_fetched
from pststream.progress import Progress
from pststream.quality.input_files import is_utf8_name, sha256_of
from pststream.state import fetched_files
from pststream.state.home import Home

UNCACHED_BYTES = 64 << 20
"""Hashing fewer bytes than this takes no longer than reading and writing the cache for years of files."""

SETTLED_SECONDS = 2.0
"""The hash of a file that changed less than this before it was read is not cached: it may change and keep its stamp."""

THREADS = 4

Stamp = tuple[str, int]


def select_readable(paths: list[str], progress: Progress) -> list[str]:
    """Return the paths of files that can be opened now.

    Skips broken links, pipes, files without permission, and names that are not UTF-8, and reports them.
    """
    readable = [path for path in paths if is_utf8_name(path) and os.path.isfile(path) and os.access(path, os.R_OK)]
    for path in sorted(set(paths) - set(readable)):
        reason = "it is not a readable file" if is_utf8_name(path) else "its name is not UTF-8: rename it"
        progress(escape_controls(f"{path}: skipped: {reason}"))
    return readable


def read_stamps(paths: list[str]) -> dict[str, Stamp]:
    """Map the absolute path of each file to its stamp and size; "" and 0 for a file that does not exist."""
    return {str(Path(path).absolute()): _stamp(path) for path in paths}


def hash_files(home: Home, stamps: dict[str, Stamp], tolerant: bool) -> list[OfferedFile]:
    """Return the files of these stamps with their hashes; the home is locked.

    Skips a file that no longer exists if `tolerant`, else raises InputFileError.
    """
    began = time.time()
    many = sum(size for _, size in stamps.values()) > UNCACHED_BYTES
    hashes = fetched_files.read_hash_cache(home) if many else {}

    def hash_file(path: str) -> OfferedFile | None:
        tag, size = stamps[path]
        known = hashes.get(path)
        try:
            return OfferedFile(path, known[2] if known and known[:2] == (tag, size) else sha256_of(path), size)
        except InputFileError:
            if not tolerant:
                raise
            return None

    with ThreadPoolExecutor(THREADS) as pool:
        files = [one for one in pool.map(hash_file, stamps) if one is not None]
    if many:
        settled = {one.path: (*stamps[one.path], one.sha256) for one in files if _is_settled(one, stamps, began)}
        gone = {path for path in hashes.keys() - stamps.keys() if not is_fetched(path) and not os.path.exists(path)}
        new = {path: cached for path, cached in (hashes | settled).items() if path not in gone}
        if new != hashes:
            fetched_files.write_hash_cache(home, new)
    return files


def has_changed(path: str, stamps: dict[str, Stamp]) -> bool:
    """Whether a file has changed since its stamp was read."""
    return path in stamps and stamps[path] != _stamp(path)


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return "", 0
    return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_ctime_ns}", status.st_size


def _is_settled(file: OfferedFile, stamps: dict[str, Stamp], began: float) -> bool:
    """Whether a file had not changed for SETTLED_SECONDS when it was first read, and has not changed since."""
    tag, size = stamps[file.path]
    changed = int(tag.rpartition("-")[2] or 0) / 1e9
    return tag != "" and changed < began - SETTLED_SECONDS and _stamp(file.path) == (tag, size)
