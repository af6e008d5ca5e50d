"""Decorators that turn functions into numba kernels, compiled at their first call and cached in a folder on disk.

Numba's cache on disk notices changes in the file of a function, but not in the files of functions that it calls. So the
name of the folder is a hash over all kernel files: after a change in any of them, all kernels compile again.
"""

import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba

from pststream.base.errors import UsageError
from pststream.base.optional_packages import hidden_packages

# numba imports these two at the first kernel, and with them the packages hidden here, which no kernel uses.
with hidden_packages("cffi", "scipy.linalg"):
    import numba.core.typing.cffi_utils
    import numba.np.arraymath


def node_folder() -> Path:
    """Return the cache folder of this node: PSTSTREAM_CACHE_DIR, by default ~/.cache/pststream; it may be deleted."""
    return Path(os.environ.get("PSTSTREAM_CACHE_DIR") or Path.home() / ".cache" / "pststream")


def cache_folder() -> Path:
    """Return the folder of compiled kernels."""
    return node_folder() / "numba" / _version_of_kernels()


@lru_cache(maxsize=1)
def _version_of_kernels() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _own_folder(folder: Path) -> Path:
    """Make a folder for this user alone, unless it exists; raise UsageError if another user may have written into it.

    Numba loads what lies there as code.
    """
    folder.mkdir(0o700, exist_ok=True)
    status = folder.stat()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(
            f"{folder}: another user may write compiled code there",
            "delete it, or let PSTSTREAM_CACHE_DIR name another folder",
        )
    return folder


with suppress(OSError):  # a cache that cannot be made is none: each process compiles for itself
    node_folder().mkdir(0o700, parents=True, exist_ok=True)  # has data of homes; on Kubernetes it may be open
    _own_folder(cache_folder().parent)
    _own_folder(cache_folder())
numba.config.CACHE_DIR = str(cache_folder())


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on first call, without the GIL, and keep the machine code on disk."""
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)


def leaf(function: Callable[..., Any]) -> Any:
    """Compile as `kernel` does, but without counting references to arrays: for the inside of a hot loop.

    Each counted reference is an atomic addition, which waits for all reads before it. Neither the function nor those
    that it calls make or return an array, which numba refuses; a view of a row, for its own use, is none. A loop that
    has to make arrays borrows the others (kernels/intrinsics.py).
    """
    return numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` into each caller: for a part of a hot loop that takes many arrays."""
    return numba.njit(inline="always", error_model="numpy")(function)
