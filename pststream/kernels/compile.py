"""Compile kernels with numba and keep their machine code in a cache folder.

The on-disk cache of numba checks the file of a function only, not the files of the functions that it calls. So the name
of the folder is a hash over all kernel files: a change in any of them starts with an empty folder.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba


def node_folder() -> Path:
    """Return the cache folder of this node: PSTSTREAM_CACHE_DIR, by default ~/.cache/pststream; it may be deleted."""
    return Path(os.environ.get("PSTSTREAM_CACHE_DIR") or Path.home() / ".cache" / "pststream")


def cache_folder() -> Path:
    """Return the folder of compiled kernels."""
    digest = hashlib.sha256(numba.__version__.encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return node_folder() / "numba" / digest.hexdigest()[:16]


numba.config.CACHE_DIR = str(cache_folder())


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on first call, without the GIL, and keep the machine code on disk."""
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` into each caller: for a part of a hot loop that takes many arrays."""
    return numba.njit(inline="always", error_model="numpy")(function)
