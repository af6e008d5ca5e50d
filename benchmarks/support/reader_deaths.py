"""Let the readers of a watcher die or stall on files of certain names, as native code may on a file of any name."""

import os
from pathlib import Path

from benchmarks.support.hostile_files import QUARANTINED, HostileFile

READ_SECONDS = 20

READER_DEATHS = (
    HostileFile("kills.csv", "objects", lambda r, _: r.csv(), QUARANTINED, "its reader was ended by SIGKILL"),
    HostileFile("stalls.csv", "objects", lambda r, _: r.csv(), QUARANTINED, f"more than {READ_SECONDS} seconds"),
)

_SITE = """
import os
import signal
import time
from pststream.input import readers

read_csv = readers._READERS["csv"]


def die_or_read(path, *arguments):
    if path.endswith("kills.csv"):
        os.kill(os.getpid(), signal.SIGKILL)
    if path.endswith("stalls.csv"):
        time.sleep(1e6)
    return read_csv(path, *arguments)


readers._READERS["csv"] = die_or_read
"""
"""Python runs this at the start of each process that has its folder on its path."""


def make_environment(folder: Path) -> dict[str, str]:
    """Return the environment of processes whose readers die of READER_DEATHS; `folder` is a new one."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_SITE)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "PSTSTREAM_READ_SECONDS": str(READ_SECONDS)}
