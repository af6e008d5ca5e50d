"""Open files of a landing folder without following a link that leads out of it.

Whoever may write to a landing folder may put a symbolic link there, and may replace a file by a link at any time. So a
file is opened folder by folder from the landing folder on, and no part of its path may be a link at that moment. The
landing folder itself may be a link, and a link to another place in the folder is followed, as volumes of Kubernetes
have them.
"""

import errno
import glob
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from pststream.base.errors import InputFileError, PassingError
from pststream.input.input_files import unreadable

OUTSIDE = "it is a link that leads out of its folder, or not a regular file"
_HINT = "copy the file into the folder"
_LINK = (errno.ELOOP, errno.ENOTDIR)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def find_folders(paths: Iterable[str], patterns: Iterable[str]) -> dict[str, str]:
    """Map each path that a folder or glob of `patterns` has found to the folder that it must not leave.

    That is the folder itself, or the one above the first wildcard. A file that a pattern names has none.
    """
    patterns = list(dict.fromkeys(patterns))
    roots = [one if os.path.isdir(one) else _fixed_part(one) for one in patterns if _is_open(one)]
    named, folders = {Path(one).absolute() for one in patterns if not _is_open(one)}, {}
    for path in paths:
        root = next((one for one in roots if Path(path).is_relative_to(one)), None)
        if root is not None and Path(path).absolute() not in named:
            folders[path] = root
    return folders


def _is_open(pattern: str) -> bool:
    """Whether a pattern leaves open which files it means."""
    return os.path.isdir(pattern) or (glob.has_magic(pattern) and not os.path.exists(pattern))


def _fixed_part(pattern: str) -> str:
    return str(Path(*takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts)))


def leads_outside(path: str, folder: str | None) -> bool:
    """Whether the file at a path below a folder is outside it; never if `folder` is None."""
    return folder is not None and _place(path, folder) is None


def open_below(path: str, folder: str) -> int:
    """Return a descriptor of a regular file below a folder. Raises InputFileError or PassingError."""
    place = _place(path, folder)
    if place is None:
        raise InputFileError(path, OUTSIDE, _HINT)
    try:
        opened = os.open(os.path.realpath(folder), os.O_RDONLY | os.O_DIRECTORY)
        for flags, name in zip([_FOLDER] * (len(place) - 1) + [_FILE], place):
            above = opened
            try:
                opened = os.open(name, flags, dir_fd=above)
            finally:
                os.close(above)
    except OSError as error:
        # A part of the path has become a link since its place was resolved.
        raise (InputFileError(path, OUTSIDE, _HINT) if error.errno in _LINK else unreadable(path, error)) from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise InputFileError(path, OUTSIDE, _HINT)
    return opened


@contextmanager
def readable_below(path: str, folder: str | None) -> Iterator[str]:
    """Yield a path of the same name under which readers open this very file; otherwise as `content_below`."""
    with content_below(path, folder) as content:
        if folder is None:
            yield content
            return
        with TemporaryDirectory(prefix="pststream-") as private:
            link = Path(private, Path(path).name)
            link.symlink_to(content)
            yield str(link)


@contextmanager
def content_below(path: str, folder: str | None) -> Iterator[str]:
    """Yield a path under which this very file can be opened, whatever is put in its place meanwhile.

    Without a folder, this is the path itself: whoever names a file means what it leads to. InputFileError and
    PassingError of the block name the file by its own path.
    """
    if folder is None:
        yield path
        return
    opened = open_below(path, folder)
    try:
        yield f"/proc/self/fd/{opened}"
    except InputFileError as error:
        raise InputFileError(path, error.reason, error.hint) from error
    except PassingError as error:
        raise PassingError(path, error.number) from error
    finally:
        os.close(opened)


def _place(path: str, folder: str) -> tuple[str, ...] | None:
    """Return the names that lead from a folder to the file that a path below it means; None if it is elsewhere."""
    if parts := _names_without_links(path, folder):
        return parts
    real, root = Path(os.path.realpath(path)), os.path.realpath(folder)
    return real.relative_to(root).parts or None if real.is_relative_to(root) else None


def _names_without_links(path: str, folder: str) -> tuple[str, ...]:
    """Return the names that lead from a folder to a path, if none is a link; else none. Most files have no links."""
    if not Path(path).is_relative_to(folder):
        return ()
    names, place = Path(path).relative_to(folder).parts, folder
    for name in names:
        place = os.path.join(place, name)
        if name == ".." or os.path.islink(place):
            return ()
    return names
