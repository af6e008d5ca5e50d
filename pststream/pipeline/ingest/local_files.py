"""Return the local input files that can be opened, with the SHA-256 of each, cached while a file is unchanged.

A landing folder may have years of files. The cached hash of a file (state/fetched_files.py) is valid as long as its
stamp: its inode, its size, and the times of its last change.
"""

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from pststream.base.errors import InputFileError, PassingError
from pststream.base.progress import Progress
from pststream.base.texts import escape_controls
from pststream.input.confined_files import OUTSIDE, content_below, leads_outside
from pststream.input.input_files import MAX_EXPANSION, format_of, is_compressed, is_utf8_name, sha256_of
from pststream.pipeline.ingest.fetch_objects import OfferedFile, is_fetched
from pststream.state import fetched_files
from pststream.state.home import Home

UNCACHED_BYTES = 64 << 20
"""Hashing fewer bytes than this takes no longer than reading and writing the cache for years of files."""

SETTLED_SECONDS = 2.0
"""The hash of a file that changed less than this before it was read is not cached: it may change and keep its stamp."""

THREADS = 4

Stamp = tuple[str, int]

NO_FOLDERS: Mapping[str, str] = {}
"""For files that may be links to any place: somebody named each of them."""


def select_readable(paths: list[str], progress: Progress, folders: Mapping[str, str] = NO_FOLDERS) -> list[str]:
    """Return the paths of files that can be opened now.

    Skips broken links, links that lead out of the folder of a file in `folders`, pipes, files without permission, and
    names that are not UTF-8, and reports them.
    """
    readable = []
    for path in paths:
        is_readable = os.path.isfile(path) and os.access(path, os.R_OK)
        if reason := refusal(path, folders.get(path)) or ("" if is_readable else "it is not a readable file"):
            progress(escape_controls(f"{path}: skipped: {reason}"))
        else:
            readable.append(path)
    return readable


def refusal(path: str, folder: str | None) -> str:
    """Return why a file is never opened as it is: its name, a link that leads out of `folder`, or holes that would take
    long to read; "" if it may be.
    """
    if not is_utf8_name(path):
        return "its name is not UTF-8: rename it"
    if leads_outside(path, folder):
        return OUTSIDE
    with suppress(OSError):
        status = os.stat(path)
        if status.st_size > UNCACHED_BYTES and status.st_blocks * 512 < status.st_size // MAX_EXPANSION:
            return f"it has {status.st_size:,} bytes, nearly all of them holes"
    return ""


def folder_of_sender(path: str, folder: str) -> str:
    """Return the first folder below `folder` in which a file is, which has its sender's files; else `folder`."""
    first, below, _ = os.path.relpath(path, folder).partition("/")
    return f"{folder.rstrip('/')}/{first}" if below else folder


def read_stamps(paths: list[str]) -> dict[str, Stamp]:
    """Map the absolute path of each file to its stamp and size; "" and 0 for a file that does not exist."""
    return {str(Path(path).absolute()): _stamp(path) for path in paths}


def hash_files(
    home: Home, stamps: dict[str, Stamp], tolerant: bool, folders: Mapping[str, str] = NO_FOLDERS
) -> list[OfferedFile]:
    """Return the files of these stamps with their hashes; the home is locked.

    folders: the folders that files must not leave, by absolute path
    If `tolerant`, skips a file that no longer exists or cannot be read now, unless that is so for all files. Otherwise
    raises InputFileError or PassingError.
    """
    began = time.time()
    many = sum(size for _, size in stamps.values()) > UNCACHED_BYTES
    hashes = fetched_files.read_hash_cache(home) if many else {}
    passing: list[PassingError] = []

    def hash_file(path: str) -> OfferedFile | None:
        tag, size = stamps[path]
        known = hashes.get(path)
        try:
            if known and known[:2] == (tag, size) and not leads_outside(path, folders.get(path)):
                return OfferedFile(path, known[2], size)
            with content_below(path, folders.get(path)) as content:
                return OfferedFile(path, sha256_of(content), size)
        except (InputFileError, PassingError) as error:
            if not tolerant:
                raise
            if isinstance(error, PassingError):
                passing.append(error)
            return None

    with ThreadPoolExecutor(THREADS) as pool:
        files = [one for one in pool.map(hash_file, stamps) if one is not None]
    if passing and not files:
        raise passing[0]
    if many:
        settled = {one.path: (*stamps[one.path], one.sha256) for one in files if _is_settled(one, stamps, began)}
        gone = {path for path in hashes.keys() - stamps.keys() if not is_fetched(path) and not os.path.exists(path)}
        new = {path: cached for path, cached in (hashes | settled).items() if path not in gone}
        if new != hashes:
            fetched_files.write_hash_cache(home, new)
    return files


def has_changed(path: str, stamps: Mapping[str, Stamp]) -> bool:
    """Whether a file has changed since its stamp was read."""
    return path in stamps and stamps[path] != _stamp(path)


def may_grow(path: str, folder: str | None, format: str | None, seconds: float) -> bool:
    """Whether a text file that is not compressed has changed in the last `seconds`, and its last line has no end."""
    try:
        if is_fetched(path) or is_compressed(path) or format_of(path, format) == "parquet":
            return False
        if not 0 <= time.time() - os.stat(path).st_mtime < seconds:
            return False
        with content_below(path, folder) as content, open(content, "rb") as file:
            return file.seek(0, os.SEEK_END) > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) not in b"\r\n"
    except (OSError, InputFileError, PassingError):
        return False  # whoever reads it finds out why


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
