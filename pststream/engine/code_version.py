"""Let each task check that its node runs the driver's code, and report which node does not.

A node that an upgrade has missed might match by other rules, and nobody would notice. Each task carries the digest of
the driver's code and compares it with the digest of its node's code before it starts.
"""

import hashlib
import importlib.metadata
import platform
import sys
from functools import lru_cache
from pathlib import Path

import pststream
from pststream.base.errors import RetryableError

PACKAGES = ("deltalake", "numba", "numpy", "pyarrow")
CODE = (".py", ".json")
OTHER_CODE = "runs other code than the driver"


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return a digest of this process's pststream, Python and the packages that decide what is matched and written."""
    digest = hashlib.sha256(repr([sys.version_info[:3], *map(importlib.metadata.version, PACKAGES)]).encode())
    folder = Path(pststream.__file__).parent
    for file in sorted(file for file in folder.rglob("*") if file.suffix in CODE):
        digest.update(str(file.relative_to(folder)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def check_code_in_task(expected: str) -> None:
    """Raise RuntimeError unless `code_digest()` is `expected`; an empty string accepts any code."""
    if expected and code_digest() != expected:
        raise RuntimeError(f"{OTHER_CODE}: {platform.node()}")


def explain_if_other_code(error: Exception) -> None:
    """Raise RetryableError that names the node if `check_code_in_task` failed; `error`: what the engine raised."""
    _, matched, node = str(error).partition(f"{OTHER_CODE}: ")
    if matched:
        raise RetryableError(
            f"node {node.split()[0]} {OTHER_CODE}",
            "give every node, and the driver, the same image (docs/where-it-runs.md), then run this again",
        ) from error
