"""Driver and nodes run the same code: a node that an upgrade left behind might match by other rules, unseen.

Each task is told the driver's code and compares it with that of the node before its work.
"""

import hashlib
import importlib.metadata
import platform
import sys
from functools import lru_cache
from pathlib import Path

import pststream
from pststream.errors import RetryableError

PACKAGES = ("deltalake", "numba", "numpy", "pyarrow")
OTHER_CODE = "runs other code than the driver"


@lru_cache(maxsize=1)
def code() -> str:
    """A digest of this process's pststream, Python, and the packages that decide what is found and written."""
    digest = hashlib.sha256(repr([sys.version_info[:3], *map(importlib.metadata.version, PACKAGES)]).encode())
    folder = Path(pststream.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        digest.update(str(file.relative_to(folder)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def check(expected: str) -> None:
    """Raise unless this process runs the code that `code()` was on the driver; empty: any."""
    if expected and code() != expected:
        raise RuntimeError(f"{OTHER_CODE}: {platform.node()}")


def explain(error: Exception) -> None:
    """Raise RetryableError if a task has failed by `check`."""
    _, found, node = str(error).partition(f"{OTHER_CODE}: ")
    if found:
        raise RetryableError(
            f"node {node.split()[0]} {OTHER_CODE}",
            "give every node, and the driver, the same image (docs/cluster.md), then run this again",
        ) from error
