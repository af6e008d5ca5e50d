"""A small disk for the home, which can be full for a while: a tmpfs, or a bound on the size of files.

Only root may mount. Elsewhere the process under test may write no file longer than some bytes for a while, which is
another fault (EFBIG, not ENOSPC) with the same consequence: a write fails in the middle.
"""

import os
import random
import resource
import subprocess
from pathlib import Path

import psutil

SIZE = 1 << 30


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
        if self.mounted:
            found = os.statvfs(self.folder)
            self._resize((found.f_blocks - found.f_bfree) * found.f_frsize + left)
        else:
            self._bound(process, left)

    def clear(self, process: psutil.Process) -> None:
        """Leave plenty again."""
        if self.mounted:
            self._resize(SIZE)
        else:
            self._bound(process, resource.RLIM_INFINITY)

    def unmount(self) -> None:
        """Give it back, with all that is on it."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def _resize(self, size: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={max(size, 4096)}", str(self.folder)], check=True)

    def _bound(self, process: psutil.Process, size: int) -> None:
        for one in (process, *process.children(recursive=True)):
            resource.prlimit(one.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
