"""Write a local file atomically: under a temporary name in the same folder, then renamed."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY_PREFIX = ".writing-"
"""How temporary names begin. They are hidden, so that readers of a folder skip them."""


@contextmanager
def replacing(path: Path, *, several_writers: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the same folder; when the block ends, rename it to `path`.

    If the block raises, the temporary file is removed and `path` stays as it was. A process that is killed leaves the
    temporary file, and the next write of `path` replaces it. With `several_writers`, processes may write `path` at the
    same time: each has a temporary name of its own, and the file of a killed process stays.
    """
    temporary = path.with_name(TEMPORARY_PREFIX + (uuid.uuid4().hex if several_writers else path.name))
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Create or replace a file, so that a reader finds either the old or the new content."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def create_atomically(path: Path, content: bytes) -> bool:
    """Create a file with this content; return False, and leave the file as it is, if it exists."""
    temporary = path.with_name(TEMPORARY_PREFIX + uuid.uuid4().hex)
    try:
        temporary.write_bytes(content)
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True
