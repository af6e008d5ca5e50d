"""Local files for an ingest: those that can be read, with the hash of their content, which is computed once.

A landing folder may hold all that ever landed. What was learnt of a file (state/fetched_files.py) holds as long as
its stamp:
its inode, its size, and the times of its last change.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pststream.errors import InputFileError
from pststream.escape_text import escape_controls
from pststream.pipeline.ingest.fetch_objects import Offered, is_fetched
from pststream.progress import Progress
from pststream.quality.input_files import is_utf8_name, sha256_of
from pststream.state import fetched_files
from pststream.state.home import Home

FEW_BYTES = 64 << 20
"""Hashing so many takes no longer than reading and writing what was learnt of years of files."""

SETTLED_SECONDS = 2.0
"""A file that changed less than this before it was read is not learnt: it may change again and keep its stamp."""

THREADS = 4

Stamp = tuple[str, int]


def readable(paths: list[str], progress: Progress) -> list[str]:
    """The paths of files that can be opened now: a link to nowhere, a pipe, a file of another user or one whose name is
    not UTF-8 stops no other.
    """
    able = [path for path in paths if is_utf8_name(path) and os.path.isfile(path) and os.access(path, os.R_OK)]
    for path in sorted(set(paths) - set(able)):
        reason = "it is no file that can be read" if is_utf8_name(path) else "its name is not UTF-8: rename it"
        progress(escape_controls(f"{path}: passed over, as {reason}"))
    return able


def stamps_of(paths: list[str]) -> dict[str, Stamp]:
    """Absolute path of each file -> what changes with its content, and its size; nothing and 0 for one that is gone."""
    return {str(Path(path).absolute()): _stamp(path) for path in paths}


def hashed(home: Home, stamps: dict[str, Stamp], tolerant: bool) -> list[Offered]:
    """Files, by their stamps, as they are offered to the log; one that is gone by now is left out if `tolerant`, else
    InputFileError is raised. The home is locked.
    """
    began = time.time()
    many = sum(size for _, size in stamps.values()) > FEW_BYTES
    learnt = fetched_files.read_hash_cache(home) if many else {}

    def offered(path: str) -> Offered | None:
        tag, size = stamps[path]
        known = learnt.get(path)
        try:
            return Offered(path, known[2] if known and known[:2] == (tag, size) else sha256_of(path), size)
        except InputFileError:
            if not tolerant:
                raise
            return None

    with ThreadPoolExecutor(THREADS) as pool:
        files = [one for one in pool.map(offered, stamps) if one is not None]
    if many:
        settled = {one.path: (*stamps[one.path], one.sha256) for one in files if _is_settled(one, stamps, began)}
        gone = {path for path in learnt.keys() - stamps.keys() if not is_fetched(path) and not os.path.exists(path)}
        new = {path: what for path, what in (learnt | settled).items() if path not in gone}
        if new != learnt:
            fetched_files.write_hash_cache(home, new)
    return files


def has_changed(path: str, stamps: dict[str, Stamp]) -> bool:
    """Whether a file that has a stamp is another by now."""
    return path in stamps and stamps[path] != _stamp(path)


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return "", 0
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_ctime_ns}", found.st_size


def _is_settled(file: Offered, stamps: dict[str, Stamp], began: float) -> bool:
    """Whether it had not changed for a while when it was first looked at, and has not since."""
    tag, size = stamps[file.path]
    changed = int(tag.rpartition("-")[2] or 0) / 1e9
    return tag != "" and changed < began - SETTLED_SECONDS and _stamp(file.path) == (tag, size)
