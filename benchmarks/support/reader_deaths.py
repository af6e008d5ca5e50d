"""Let a watcher die of certain files and rows, as native code may of any, and see a small disk."""

import gzip
import os
from pathlib import Path

from benchmarks.support.hostile_files import HEADER, QUARANTINED, SET_ASIDE, WORD, HostileFile, Rows

READ_SECONDS = 20
FREE_BYTES = 400_000_000
"""The free disk that a watcher sees, at most: half of it is for the rows of a file."""


def _oversized(rows: Rows, _: Path) -> bytes:
    """Return a compressed file whose rows need more than half of the disk."""
    row = f"hostile-{rows.number}-{{}},{rows.ts},1,2,{(WORD + ' ') * 100}\n"
    return gzip.compress((HEADER + "".join(map(row.format, range(FREE_BYTES // 2000)))).encode(), 9)


READER_DEATHS = (
    HostileFile("kills.csv", "objects", lambda r, _: r.csv(), QUARANTINED, "its reader was ended by SIGKILL"),
    HostileFile("stalls.csv", "objects", lambda r, _: r.csv(), QUARANTINED, f"more than {READ_SECONDS} seconds"),
)

HOME_HARMS = (
    HostileFile("too-large.csv.gz", "objects", _oversized, QUARANTINED, "more than half of the free space"),
    HostileFile("row.csv", "objects", lambda r, _: r.csv({"object_id": f"{r.number}-dies"}), SET_ASIDE, "set_aside", 2),
    HostileFile(
        "row.jsonl",
        "requests",
        lambda r, _: r.requests({"created_at": r.ts.replace("Z", "666Z")}),
        SET_ASIDE,
        "set_aside",
        2,
    ),
)
"""A file that does not fit, and rows that kill their batch at every try."""

_SITE = f"""
import os
import shutil
import signal
import sys
import time
from pststream.input import readers

read_csv, disk_usage = readers._READERS["csv"], shutil.disk_usage


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_or_read(path, *arguments):
    if path.endswith("kills.csv"):
        die()
    if path.endswith("stalls.csv"):
        time.sleep(1e6)
    return read_csv(path, *arguments)


def small_disk(path):
    usage = disk_usage(path)
    return usage._replace(free=min(usage.free, {FREE_BYTES}))


readers._READERS["csv"], shutil.disk_usage = die_or_read, small_disk

if "--watch" in sys.orig_argv:
    from pststream.pipeline.batch import route_task
    from pststream.pipeline.index import build_index

    find_workers, pieces_of_kind = route_task._find_workers, build_index._pieces_of_kind

    def die_or_find(objects, *others):
        if any(one.endswith("-dies") for one in objects.column("object_id").to_pylist()):
            die()
        return find_workers(objects, *others)

    def die_or_make(kind, inserted):
        if any(one.microsecond % 1000 == 666 for one in inserted.column("effective_at").to_pylist()):
            die()
        return pieces_of_kind(kind, inserted)

    route_task._find_workers, build_index._pieces_of_kind = die_or_find, die_or_make
"""
"""Python runs this at the start of each process that has its folder on its path."""


def make_environment(folder: Path) -> dict[str, str]:
    """Return the environment of processes that die of READER_DEATHS and HOME_HARMS; `folder` is a new one."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_SITE)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "PSTSTREAM_READ_SECONDS": str(READ_SECONDS)}
