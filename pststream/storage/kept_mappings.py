"""Keep files mapped from one batch to the next: the first write to each page of a new mapping takes about 2 us."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

Mapped = TypeVar("Mapped")

MOST = 512
"""Files that a process keeps mapped for one use."""


class KeptMappings(Generic[Mapped]):
    """The file that was last mapped at each path; several threads may use it.

    A mapped file keeps its inode, which no other file can have meanwhile. So a file that was replaced, or that has
    another size now, is mapped again.
    """

    def __init__(self) -> None:
        self._kept: dict[Path, tuple[tuple[int, int, int], Mapped]] = {}

    def get(self, path: Path, status: os.stat_result, map_file: Callable[[], Mapped]) -> Mapped:
        """Return the mapping of the file with this status, which is at the path or is to be there."""
        identity = status.st_dev, status.st_ino, status.st_size
        known = self._kept.get(path)
        if known is not None and known[0] == identity:
            return known[1]
        for other in list(self._kept):
            if not os.path.exists(other):
                self._kept.pop(other, None)  # the disk gets its room back
        if len(self._kept) >= MOST:
            self._kept.clear()
        mapped = map_file()
        self._kept[path] = identity, mapped
        return mapped
