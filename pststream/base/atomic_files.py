"""Write a local file atomically: under a temporary name in the same folder, flushed to disk, then renamed.

A kill leaves what a process has written to the operating system; a power cut loses what was not flushed. So the content
is flushed before the file gets its name, and the folder after that.
"""

import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY_PREFIX = ".writing-"
"""How temporary names begin. They are hidden, so that readers of a folder skip them."""

VARIABLE = "PSTSTREAM_FSYNC"
"""Environment variable that turns flushing off with the value 0."""


@contextmanager
def replacing(path: Path, *, several_writers: bool = False, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path in the same folder; when the block ends, rename it to `path`.

    If the block raises, the temporary file is removed and `path` stays as it was. A process that is killed leaves the
    temporary file, and the next write of `path` replaces it. With `several_writers`, processes may write `path` at the
    same time: each has a temporary name of its own, and the file of a killed process stays. A file that is not
    `durable` is not flushed: after a power cut its reader must recognize that it is damaged, or not need it.
    """
    temporary = path.with_name(TEMPORARY_PREFIX + (uuid.uuid4().hex if several_writers else path.name))
    try:
        yield temporary
        if durable:
            flush_file(temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if durable:
        flush_folders([path.parent])


def write_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Create or replace a file, so that a reader finds the old or the new content; `durable`: see `replacing`."""
    with replacing(path, durable=durable) as temporary:
        temporary.write_bytes(content)


def create_atomically(path: Path, content: bytes) -> bool:
    """Create a file with this content; return False, and leave the file as it is, if it exists."""
    temporary = path.with_name(TEMPORARY_PREFIX + uuid.uuid4().hex)
    try:
        temporary.write_bytes(content)
        flush_file(temporary)
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    flush_folders([path.parent])
    return True


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Create a folder, with this mode, and the missing ones above it, and flush those that get a new entry."""
    missing = [one for one in (path, *path.parents) if not one.is_dir()]
    if missing:
        path.mkdir(mode, parents=True, exist_ok=True)
        flush_folders(one.parent for one in missing)


def flush_file(path: str | os.PathLike[str]) -> None:
    """Flush the content of a file to disk."""
    if _is_on():
        _flush(path)


def flush_folders(folders: Iterable[str | os.PathLike[str]]) -> None:
    """Flush the names in each folder to disk; not in a file system that flushes no folders."""
    for folder in dict.fromkeys(os.fspath(one) for one in folders) if _is_on() else ():
        try:
            _flush(folder)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise


def _is_on() -> bool:
    return os.environ.get(VARIABLE) != "0"


def _flush(path: str | os.PathLike[str]) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
