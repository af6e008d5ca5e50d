"""The one decorator of all kernels, and where their machine code is kept.

numba's on-disk cache looks at the file of a function only, not at the files of the functions it calls; so the folder is
named by a hash over all kernel files: a change anywhere starts an empty one.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba


def node_folder() -> Path:
    """Folder of what this node can make again: PSTSTREAM_CACHE_DIR, by default ~/.cache/pststream."""
    return Path(os.environ.get("PSTSTREAM_CACHE_DIR") or Path.home() / ".cache" / "pststream")


def cache_folder() -> Path:
    """Folder of compiled kernels."""
    digest = hashlib.sha256(numba.__version__.encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return node_folder() / "numba" / digest.hexdigest()[:16]


numba.config.CACHE_DIR = str(cache_folder())


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on first call, without the GIL, and keep the machine code on disk."""
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)


def inlined(function: Callable[..., Any]) -> Any:
    """As `kernel`, merged into each caller: for a part of a hot loop that takes many arrays."""
    return numba.njit(inline="always", error_model="numpy")(function)
