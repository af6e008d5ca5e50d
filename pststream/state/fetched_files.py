"""Manage the local copies of bucket objects during an ingest, and cache the hashes of input files.

A copy is in `spool/` of the home's work folder, in a folder named after its hash; it is renamed into place when it is
complete, and removed when its ingest is done. The cache has the hash of each bucket object by its ETag and of each
local file by its stamp, so that known files are not copied or read again. The cache may be deleted at any time.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pststream.base.atomic_files import write_atomically
from pststream.state.home import Home
from pststream.storage.registry import storage_of
from pststream.tables.ledgers import Ledger

FOLDER = "spool"
_HASH_CACHE = "learnt.json"

HashCache = dict[str, tuple[str, int, str]]
"""Address or path -> ETag or stamp, size in bytes, and the hash (of a manifest: whether it is done)."""


def readable_path(home: Home, file: Mapping[str, Any]) -> str:
    """Return the local path of an input file, or of its copy if it is a bucket object; `file`: a row of `files`."""
    path: str = file["path"]
    if storage_of(path).local_path(path) is not None:
        return path
    return f"{home.work_folder}/{FOLDER}/{file['sha256']}/{path.rpartition('/')[2]}"


def partial_copy_path(home: Home, address: str) -> Path:
    """Return the path where the copy of a bucket object is written until it is complete."""
    folder = home.work_folder / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(address.encode('utf-8', 'surrogatepass')).hexdigest()}.part"


def finish_copy(partial: Path, path: str) -> None:
    """Move a complete copy to its path."""
    Path(path).parent.mkdir(exist_ok=True)
    os.replace(partial, path)


def remove_unneeded_copies(home: Home) -> None:
    """Remove the copies that no unfinished ingest needs."""
    if not (home.work_folder / FOLDER).is_dir():
        return
    needed = {file["sha256"] for file in Ledger(home).unfinished_ingest()} | {_HASH_CACHE}
    for path in (home.work_folder / FOLDER).iterdir():
        if path.name not in needed:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def read_hash_cache(home: Home) -> HashCache:
    """Return the cached hashes; none if the cache cannot be read."""
    try:
        cached = json.loads((home.work_folder / FOLDER / _HASH_CACHE).read_text("utf-8"))
        return {address: (str(etag), int(size), str(sha256)) for address, (etag, size, sha256) in cached.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def write_hash_cache(home: Home, hashes: HashCache) -> None:
    """Replace the cached hashes."""
    path = home.work_folder / FOLDER / _HASH_CACHE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(hashes).encode(), durable=False)
