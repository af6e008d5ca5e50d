"""Set the clock of the processes under test while they run, by a library that is loaded before libc.

The library needs a C compiler and libc's headers; where they are missing, no clock jumps, and the summary says so. The
monotonic clock and the times of files are the machine's: a real clock change affects neither.
"""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """A settable clock; processes that should use it get `environment`."""

    def __init__(self, folder: Path) -> None:
        library, shift = folder / "clock.so", folder / "clock.shift"
        compiler = shutil.which("cc")
        self.environment: dict[str, str] = {}
        if compiler is None:
            return
        build = [compiler, "-shared", "-fPIC", "-O2", "-o", library, SOURCE, "-ldl"]
        if subprocess.run(build, capture_output=True).returncode:  # no headers
            return
        shift.write_bytes(bytes(8))
        with open(shift, "r+b") as file:
            self._shift = mmap.mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(shift)}

    @property
    def settable(self) -> bool:
        """Whether the clock can be set on this machine."""
        return bool(self.environment)

    def set(self, seconds: int) -> None:
        """Shift the clock by so many seconds from the machine's."""
        self._shift[:] = struct.pack("=q", seconds)
