"""Copy bucket objects to the node that reads them, and cache the hashes of input files.

A copy is in `spool/` of the home's work folder on that node, in a folder named after its hash; it is renamed into place
when it is complete. The driver removes the copies of its own node when their ingest is done; on other nodes the least
recently used ones go. The cache, a file of the home, has the hash of each bucket object by its ETag and of each local
file by its stamp, so that known files are not copied or read again. Copies and cache may be deleted at any time.
"""

import errno
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pststream.base.errors import PassingError, PstError
from pststream.state.home import Home
from pststream.storage.contract import ObjectChanged, ObjectStore, StoredObject
from pststream.storage.registry import storage_of
from pststream.tables.ledgers import Ledger

FOLDER = "spool"
_HASH_CACHE = "learnt.json"

MAX_BYTES = 8 << 30
"""Bytes of the copies of a home on a node: more than those of one group of an ingest, which is the last one used."""

HashCache = dict[str, tuple[str, int, str]]
"""Address or path -> ETag or stamp, size in bytes, and the hash (of a manifest: whether it is done)."""


def readable_path(home: Home, file: Mapping[str, Any]) -> str:
    """Return the local path of an input file, or of its copy on this node if it is a bucket object; `file`: a row of
    `files`.
    """
    path: str = file["path"]
    if storage_of(path).local_path(path) is not None:
        return path
    return f"{home.work_folder}/{FOLDER}/{file['sha256']}/{path.rpartition('/')[2]}"


def fetch(home: Home, file: Mapping[str, Any]) -> str:
    """Return the local path of an input file; copy a bucket object first, unless this node has its copy.

    file: a row of `files`

    Raises PassingError if the object is not the one that was hashed, or cannot be copied now.
    """
    path = readable_path(home, file)
    if path == file["path"]:
        return path
    folder = Path(path).parent
    try:
        os.utime(path)
    except FileNotFoundError:
        with open(_make_folder(home) / f"{folder.name}.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not Path(path).exists():
                _fetch_again(home, file, folder)
    return path


def _fetch_again(home: Home, file: Mapping[str, Any], folder: Path) -> None:
    address = file["path"]
    try:
        store = storage_of(address).objects(address)
        stored = store.find_object(store.prefix)
        if stored is None or stored.bytes != file["bytes"] or copy_object(home, store, stored) != file["sha256"]:
            raise ObjectChanged(f"{address}: has changed since it was listed")
    except PassingError:
        raise
    except PstError as error:
        raise PassingError(address, errno.ESTALE if isinstance(error, ObjectChanged) else errno.EIO) from error


def copy_object(home: Home, store: ObjectStore, stored: StoredObject) -> str:
    """Copy an object to this node, and return the SHA-256 of the copy, by which it is named.

    Raises PassingError if the disk has no room for it, and what `ObjectStore.copy_object` raises.
    """
    folder, address = _make_folder(home), store.address(stored.key)
    _evict(folder, stored.bytes)
    if shutil.disk_usage(folder).free < stored.bytes:
        raise PassingError(address, errno.ENOSPC)
    partial = folder / f"{uuid.uuid4().hex}.part"
    try:
        with open(partial, "wb") as file:
            sha256 = store.copy_object(stored, file)
        path = Path(readable_path(home, {"path": address, "sha256": sha256}))
        path.parent.mkdir(exist_ok=True)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return sha256


def _make_folder(home: Home) -> Path:
    folder = home.work_folder / FOLDER
    folder.mkdir(0o700, parents=True, exist_ok=True)
    return folder


def _evict(folder: Path, room: int) -> None:
    """Remove the least recently used copies, so that those of this node and so many more bytes are within MAX_BYTES."""
    copies = [path for path in folder.iterdir() if path.is_dir()]
    used = {path: (path.stat().st_mtime, 0) for path in copies}
    for path in copies:
        for one in path.iterdir():
            used[path] = max(used[path][0], one.stat().st_mtime), one.stat().st_size
    total = room + sum(size for _, size in used.values())
    for path in sorted(copies, key=used.__getitem__):
        if total <= MAX_BYTES:
            return
        shutil.rmtree(path, ignore_errors=True)
        total -= used[path][1]


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
        cached = json.loads(home.files.read(f"{FOLDER}/{_HASH_CACHE}"))
        return {address: (str(etag), int(size), str(sha256)) for address, (etag, size, sha256) in cached.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def write_hash_cache(home: Home, hashes: HashCache) -> None:
    """Replace the cached hashes."""
    home.files.write(f"{FOLDER}/{_HASH_CACHE}", json.dumps(hashes).encode(), durable=False)
