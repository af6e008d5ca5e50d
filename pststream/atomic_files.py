"""Write local files atomically: under a temporary name first, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; when the block ends, rename it to `path`.

    The name is hidden, so that readers of the folder skip it. If the block raises, the temporary file is removed and
    `path` stays as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file, or replace it, so that a reader finds the old content or the new."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)
