"""Copies of a bucket's files while they are taken in, and what was learnt of files before.

A copy lies below `spool/` in the home, where every task can read it, in a folder named by its hash: it is renamed to
there when it is whole. Of a home in a bucket it lies on this node (`Home.work`). It goes when its ingest is done.
What was learnt (the hash of an object of this ETag, of a local file of this stamp) saves copying or reading it again to
see that it is known; it may be lost at any time.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pststream.atomic_files import write_atomically
from pststream.ledgers.log_end import Ledger
from pststream.state.home import Home
from pststream.storage.registry import storage_of

FOLDER = "spool"
_LEARNT = "learnt.json"

Learnt = dict[str, tuple[str, int, str]]
"""Address or path -> ETag or stamp, size in bytes, and what was learnt of the object or file."""


def local_path(home: Home, file: Mapping[str, Any]) -> str:
    """Where the bytes of a file (`path` and `sha256` as in the table `files`) are to be read."""
    path: str = file["path"]
    if storage_of(path).local_path(path) is not None:
        return path
    return f"{home.work}/{FOLDER}/{file['sha256']}/{path.rpartition('/')[2]}"


def part_path(home: Home, address: str) -> Path:
    """Where the copy of an object is written to until it is whole."""
    folder = home.work / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(address.encode('utf-8', 'surrogatepass')).hexdigest()}.part"


def keep(part: Path, path: str) -> None:
    """Make a whole copy be found at `path`."""
    Path(path).parent.mkdir(exist_ok=True)
    os.replace(part, path)


def tidy(home: Home) -> None:
    """Remove the copies that no unfinished ingest needs."""
    if not (home.work / FOLDER).is_dir():
        return
    needed = {file["sha256"] for file in Ledger(home).unfinished_ingest()} | {_LEARNT}
    for path in (home.work / FOLDER).iterdir():
        if path.name not in needed:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def read_learnt(home: Home) -> Learnt:
    """What was learnt; nothing if it cannot be read."""
    try:
        found = json.loads((home.work / FOLDER / _LEARNT).read_text("utf-8"))
        return {address: (str(etag), int(size), str(what)) for address, (etag, size, what) in found.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def write_learnt(home: Home, learnt: Learnt) -> None:
    """Keep what was learnt, whole or not at all."""
    path = home.work / FOLDER / _LEARNT
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(learnt).encode())
