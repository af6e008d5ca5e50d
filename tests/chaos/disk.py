"""A small disk for the home, which can be full for a while: a tmpfs, or a bound on the size of files.

Only root may mount. Elsewhere the process under test may write no file longer than some bytes for a while, which is
another fault (EFBIG, not ENOSPC) with the same consequence: a write fails in the middle.
"""

import os
import random
import resource
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil

SIZE = 1 << 30
TRIES = 50


class Disk:
    """A folder on a disk of its own, if that can be had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "chaos", str(folder)]
        self.mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0

    def fill(self, process: psutil.Process, rnd: random.Random) -> None:
        """Leave some kilobytes of it, or none."""
        left = rnd.choice((0, 0, 4096, 12_000))
        if not self.mounted:
            return self._bound(process, left)
        for _ in range(TRIES):  # what is written meanwhile may not fit any more
            found = os.statvfs(self.folder)
            if self._resize((found.f_blocks - found.f_bfree) * found.f_frsize + left):
                return
        raise AssertionError("the disk does not shrink")

    def clear(self, process: psutil.Process) -> None:
        """Leave plenty again."""
        if not self.mounted:
            self._bound(process, resource.RLIM_INFINITY)
        elif not self._resize(SIZE):
            raise AssertionError("the disk does not grow again")

    def unmount(self) -> None:
        """Give it back, with all that is on it."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def _resize(self, size: int) -> bool:
        remount = ["mount", "-o", f"remount,size={max(size, 4096)}", str(self.folder)]
        return subprocess.run(remount, capture_output=True).returncode == 0

    def _bound(self, process: psutil.Process, size: int) -> None:
        wanted = (size, resource.RLIM_INFINITY)
        while others := [one for one in _family(process) if _bound_of(one) not in (wanted, None)]:
            for one in others:  # a child that is born meanwhile has the bound of its parent, so look again
                with suppress(ProcessLookupError):
                    resource.prlimit(one, resource.RLIMIT_FSIZE, wanted)


def _family(process: psutil.Process) -> list[int]:
    return [process.pid, *(one.pid for one in process.children(recursive=True))]


def _bound_of(process: int) -> tuple[int, int] | None:
    """None for a process that has ended."""
    with suppress(ProcessLookupError):
        return resource.prlimit(process, resource.RLIMIT_FSIZE)
    return None
