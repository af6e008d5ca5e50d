"""Provide a small disk for the home that can be filled up: a tmpfs, or a limit on the size of files.

Only root may mount. Without root the process under test gets a limit on file sizes for a while, which is another error
(EFBIG, not ENOSPC) with the same effect: a write fails in the middle.
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
    """A folder on a separate disk, where mounting is possible."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "chaos", str(folder)]
        self.mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0

    def fill(self, process: psutil.Process, rnd: random.Random) -> None:
        """Fill the disk up to a few kilobytes or completely."""
        left = rnd.choice((0, 0, 4096, 12_000))
        if not self.mounted:
            return self._limit(process, left)
        self.leave(left)

    def leave(self, free: int) -> None:
        """Leave so many bytes free on a disk that is mounted."""
        for _ in range(TRIES):  # other processes write in the meantime
            usage = os.statvfs(self.folder)
            if self._resize((usage.f_blocks - usage.f_bfree) * usage.f_frsize + free):
                return
        raise AssertionError("the disk does not shrink")

    def clear(self, process: psutil.Process) -> None:
        """Make room again."""
        if not self.mounted:
            self._limit(process, resource.RLIM_INFINITY)
        elif not self._resize(SIZE):
            raise AssertionError("the disk does not grow again")

    def unmount(self) -> None:
        """Unmount the disk and drop its content."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def _resize(self, size: int) -> bool:
        remount = ["mount", "-o", f"remount,size={max(size, 4096)}", str(self.folder)]
        return subprocess.run(remount, capture_output=True).returncode == 0

    def _limit(self, process: psutil.Process, size: int) -> None:
        wanted = (size, resource.RLIM_INFINITY)
        while others := [one for one in _process_tree(process) if _limit_of(one) not in (wanted, None)]:
            for one in others:  # a new child inherits the limit of its parent, so repeat
                with suppress(ProcessLookupError):
                    resource.prlimit(one, resource.RLIMIT_FSIZE, wanted)


def _process_tree(process: psutil.Process) -> list[int]:
    return [process.pid, *(one.pid for one in process.children(recursive=True))]


def _limit_of(process: int) -> tuple[int, int] | None:
    """Return the limit of a process; None if it has ended."""
    with suppress(ProcessLookupError):
        return resource.prlimit(process, resource.RLIMIT_FSIZE)
    return None
