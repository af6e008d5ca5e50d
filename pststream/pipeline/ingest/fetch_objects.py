"""Files of a bucket for an ingest: what is ready and new is copied into the home, a bounded part at a time."""

import datetime as dt
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pststream.errors import InputFileError, PstError, RetryableError
from pststream.quality.input_files import format_of
from pststream.quality.manifests import (
    MOST_BYTES,
    Manifest,
    Waiting,
    choose,
    is_manifest,
    lacking,
    parse_manifest,
)
from pststream.state import fetched_files
from pststream.state.crash_points import crash_point
from pststream.state.home import Home
from pststream.storage.contract import ObjectChanged, StoredObject
from pststream.storage.registry import local_path, storage_of
from pststream.utc_times import utc_now

PART_BYTES = 4 << 30
"""Of the objects that are copied before they are taken in; a larger one comes alone."""

THREADS = 4
MOST_FAILURES = 8
"""After so many objects in a row that the store could not give, no more are asked for in this run."""

_DONE = "done"
_LONGEST_NAME = 255


@dataclass(frozen=True)
class Offered:
    """A file that is offered to the log: path or address, hexadecimal SHA-256, size."""

    path: str
    sha256: str
    bytes: int


def is_fetched(address: str) -> bool:
    """Whether the file or folder at an address has no local path, so that it is copied before it is read."""
    return local_path(address) is None


class Source:
    """What an address of a bucket has to offer; the home is locked.

    learnt: what was learnt of objects before, added to here. known: of their hashes, those of content that the log has,
    or holds.
    tolerant: what cannot be copied is left for the next time, and no file is no fault; else these are errors.
    """

    def __init__(
        self,
        home: Home,
        address: str,
        format: str | None,
        known: Collection[str],
        learnt: fetched_files.HashCache,
        tolerant: bool,
    ) -> None:
        self._home = home
        self._store = storage_of(address).objects(address)
        self._tolerant = tolerant
        self._learnt = learnt
        self._failures = 0
        self._failure: PstError | None = None
        self._unread: list[Waiting] = []
        self._waiting: list[Waiting] = []
        self.skipped = 0
        prefix = self._store.prefix
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        objects = self._store.list_objects(folder)
        only = None if objects or prefix.endswith("/") else self._store.find_object(prefix)
        if only is not None:
            format_of(prefix, format)
            self.skipped = int(self._of(only) in known)
            self._ready = [only] if not self.skipped else []
        else:
            self._choose(folder, objects, format, known)
        if not (self._ready or self.skipped or tolerant):
            first = f": {self._waiting[0].key}: {self._waiting[0].reason}" if self._waiting else ""
            raise InputFileError(address, f"no input file is there, {len(self._waiting)} wait{first}", "see docs/s3.md")

    def parts(self) -> Iterator[list[Offered]]:
        """The files that are ready, copied, a list for each part; a part's copies go when the next is asked for."""
        copied = 0
        for part in _parts(self._ready):
            offered = self._copies(part)
            fetched_files.write_hash_cache(self._home, self._learnt)
            crash_point("fetch.copied")
            copied += len(offered)
            yield offered
            fetched_files.remove_unneeded_copies(self._home)
        if self._failure is not None and not copied:
            raise self._failure

    def pending(self, seconds: int) -> list[dict[str, Any]]:
        """What could not be copied, and what has waited for longer than `seconds`, the oldest first."""
        late = utc_now() - dt.timedelta(seconds=seconds)
        found = [*self._unread, *(one for one in self._waiting if one.since < late)]
        return [
            {"path": self._store.address(one.key), "reason": one.reason, "since": one.since.isoformat()}
            for one in sorted(found, key=lambda one: one.since)
        ]

    def _choose(self, folder: str, objects: list[StoredObject], format: str | None, known: Collection[str]) -> None:
        """What of a folder is ready and what waits; forget objects that are gone, remember manifests that are done."""
        taken = {one.key for one in objects if self._of(one) in known}
        there = {one.key: one for one in objects}
        manifests = self._manifests(folder, [one for one in objects if self._of(one) != _DONE])
        if any(self._of(one) not in ("", _DONE) and one.key not in taken for one in objects):
            # What was copied is not in the log: a backup may be in its place, and a manifest that was done is not.
            done = self._manifests(folder, [one for one in objects if self._of(one) == _DONE])
            manifests += [one for one in done if not lacking(one, there)]
        self.skipped = len(taken)
        self._ready, self._waiting = choose(folder, objects, manifests, taken, format)
        self._waiting += [Waiting(key, "its upload is not completed", since) for key, since in self._uploads(folder)]
        here, root = self._store.address(folder), self._store.address("")
        gone = [name for name in self._learnt if name.startswith(here) and name.removeprefix(root) not in there]
        for name in gone:
            del self._learnt[name]
        ready = {one.key for one in self._ready}
        done = [one for one in manifests if not lacking(one, there) and not ready & one.files.keys()]
        for manifest in done:
            self._learn(manifest.stored, _DONE)
        if gone or done:
            fetched_files.write_hash_cache(self._home, self._learnt)

    def _of(self, stored: StoredObject) -> str:
        """What was learnt of an object: the hash of its content; empty if it is not known, or has changed."""
        etag, size, what = self._learnt.get(self._store.address(stored.key), ("", 0, ""))
        return what if (etag, size) == (stored.etag, stored.bytes) else ""

    def _learn(self, stored: StoredObject, what: str) -> None:
        self._learnt[self._store.address(stored.key)] = (stored.etag, stored.bytes, what)

    def _manifests(self, folder: str, objects: list[StoredObject]) -> list[Manifest]:
        """The manifests among the objects, read."""
        found = [one for one in objects if is_manifest(folder, one.key)]

        def read(stored: StoredObject) -> Manifest:
            try:
                return parse_manifest(stored, folder, self._store.read_start(stored, MOST_BYTES + 1))
            except PstError as error:
                return Manifest(stored, {}, error.args[0])

        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(read, found))

    def _uploads(self, folder: str) -> list[tuple[str, dt.datetime]]:
        """Uploads under way; none where they may not be listed."""
        try:
            return self._store.unfinished_uploads(folder)
        except RetryableError:
            raise
        except PstError:
            return []

    def _copies(self, part: list[StoredObject]) -> list[Offered]:
        """Copy objects into the home; those that have to wait are left out."""
        with ThreadPoolExecutor(THREADS) as pool:
            try:
                return [one for one in pool.map(self._copied, part) if one is not None]
            finally:
                pool.shutdown(cancel_futures=True)

    def _copied(self, stored: StoredObject) -> Offered | None:
        """Copy an object into the home; None if that has to wait."""
        address, name = self._store.address(stored.key), stored.key.rpartition("/")[2]
        if name in ("", ".", "..") or len(name.encode("utf-8", "surrogatepass")) > _LONGEST_NAME:
            self._left(stored, InputFileError(address, "its name cannot be that of a file", "rename it"))
            return None
        if self._failures >= MOST_FAILURES:
            self._left(stored, RetryableError(f"{address}: not asked for, as others did not come"))
            return None
        part = fetched_files.partial_copy_path(self._home, address)
        try:
            with open(part, "wb") as file:
                sha256 = self._store.copy_object(stored, file)
        except PstError as error:
            self._failures += isinstance(error, RetryableError) and not isinstance(error, ObjectChanged)
            self._left(stored, error)
            return None
        self._failures = 0
        fetched_files.finish_copy(part, fetched_files.readable_path(self._home, {"path": address, "sha256": sha256}))
        self._learn(stored, sha256)
        return Offered(address, sha256, stored.bytes)

    def _left(self, stored: StoredObject, error: PstError) -> None:
        """Leave an object for the next time, or raise why it cannot be copied."""
        if not self._tolerant:
            raise error
        if isinstance(error, RetryableError):
            self._failure = error
        self._unread.append(Waiting(stored.key, error.args[0], stored.modified))


def copy_again(home: Home, file: dict[str, Any]) -> None:
    """Copy the object of a row of `files` anew; what is there now may be something else."""
    store = storage_of(file["path"]).objects(file["path"])
    found = store.find_object(store.prefix)
    if found is not None:
        part = fetched_files.partial_copy_path(home, file["path"])
        with open(part, "wb") as copy:
            sha256 = store.copy_object(found, copy)
        fetched_files.finish_copy(part, fetched_files.readable_path(home, file | {"sha256": sha256}))


def _parts(objects: list[StoredObject]) -> Iterator[list[StoredObject]]:
    """The objects in order, cut where the copies of a part would be more than PART_BYTES."""
    part: list[StoredObject] = []
    size = 0
    for one in objects:
        if part and size + one.bytes > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(one)
        size += one.bytes
    if part:
        yield part
