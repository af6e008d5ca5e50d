"""Find the new input files of a bucket, and let the nodes copy and hash them, in groups of bounded size.

"Object" means an object of the bucket in this module: one input file or one manifest.
"""

import datetime as dt
import errno
import random
import shutil
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from time import monotonic
from typing import Any, TypeVar

from pststream.base import names
from pststream.base.errors import InputFileError, PassingError, PstError, RetryableError, passing_number
from pststream.base.utc_times import utc_now
from pststream.engine.running_engine import get_engine
from pststream.input.file_parts import MIN_PART_BYTES
from pststream.input.input_files import format_of
from pststream.input.manifests import (
    MAX_MANIFEST_BYTES,
    Manifest,
    PendingObject,
    choose_ready,
    find_key_fault,
    find_missing,
    is_manifest,
    parse_manifest,
)
from pststream.settings import Settings
from pststream.state import fetched_files
from pststream.state.crash_points import crash_point
from pststream.state.home import Home
from pststream.storage.contract import ObjectChanged, StoredObject
from pststream.storage.registry import local_path, storage_of

GROUP_BYTES = 4 << 30
"""Greatest size of the objects of a group; a larger object is a group of its own."""

GROUP_FILES = 1_000
"""Files of a group at most."""

GROUP_SECONDS = 60
"""A group that has been read, or copied, for so long is committed before more of its files are opened."""

FIRST_FILES, FIRST_BYTES = 32, 8 << 20
"""Files of a group that are opened before the clock is looked at; a larger file counts once more for each of these
bytes.
"""

MAX_MANIFESTS = 1_000
MAX_MANIFESTS_BYTES = 64 << 20
"""A run reads this many manifests of so many bytes together at most; of more it draws some at random."""

DISK_FACTOR = 3
"""Free bytes that the disk of a home in a folder must have for each byte to copy: for the copy, its staged rows and its
rows in the log.
"""

THREADS = 4
"""Objects that are requested at the same time, or one in each task."""

MAX_FAILURES = 8
"""After this many failures in a row, a task requests no more objects."""

_DONE = "done"


@dataclass(frozen=True)
class OfferedFile:
    """A file to ingest, if its content is new: path or address, hexadecimal SHA-256, size."""

    path: str
    sha256: str
    bytes: int


Sized = TypeVar("Sized", StoredObject, OfferedFile)


def is_fetched(address: str) -> bool:
    """Whether the file or folder at an address has no local path, so that it is copied before it is read."""
    return local_path(address) is None


class ObjectSource:
    """The objects to ingest at one address; the home is locked.

    hashes: the hash cache, to which this class adds copied objects
    known: takes an address and the hash in the cache; returns the path at which the file was judged before, or None
    tolerant: an object that cannot be copied waits for the next ingest, and an address without files is no error
    max_bytes: larger objects are not copied
    in_order: whether the files are to be read in the order of their keys
    ready: the objects to copy
    skipped: how many objects are not copied because they were judged before
    repeated: of these, those that were judged at another path: {"path", "read_as"}
    groups_left: how many groups are to follow
    """

    def __init__(
        self,
        home: Home,
        address: str,
        format: str | None,
        known: Callable[[str, str], str | None],
        hashes: fetched_files.HashCache,
        tolerant: bool,
        max_bytes: int,
        in_order: bool,
    ) -> None:
        self._home = home
        self._max_bytes, self._in_order = max_bytes, in_order
        self._address = address
        self._store = storage_of(address).objects(address)
        self._tolerant = tolerant
        self._hashes = hashes
        self._failure: PstError | None = None
        self._failed: list[PendingObject] = []
        self._pending: list[PendingObject] = []
        self._known = known
        self.skipped, self.groups_left = 0, 0
        self.repeated: list[dict[str, str]] = []
        prefix = self._store.prefix
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        objects = self._store.list_objects(folder)
        only = None if objects or prefix.endswith("/") else self._store.find_object(prefix)
        if only is not None:
            format_of(prefix, format)
            self.skipped = int(self._is_known(only))
            self.ready = [only] if not self.skipped else []
        else:
            self._choose(folder, objects, format)
        if not (self.ready or self.skipped or tolerant):
            first = f": {self._pending[0].key}: {self._pending[0].reason}" if self._pending else ""
            raise InputFileError(
                address, f"has no input file that is ready, {len(self._pending)} pending{first}", "see docs/input.md"
            )

    def fetch_groups(self, settings: Settings) -> Iterator[list[OfferedFile]]:
        """Let tasks copy and hash the ready files, and yield them in groups.

        Of objects, files that an earlier ingest has copied come first: if it died of one, new files must not push that
        one back.
        The copies on this node are removed when the next group starts.
        """
        copied, ready = 0, self.ready
        if not self._in_order:
            ready = sorted(ready, key=lambda stored: not self._cached(stored))
        groups = split_into_groups(ready, GROUP_BYTES)
        while groups:
            fitting, offered, done = self._select_fitting(groups.pop(0)), list[OfferedFile](), 0
            for part in parts_in_time([one.bytes for one in fitting]):
                offered += self._offer(settings, fitting[part])
                done = part.stop
            groups[:0] = [fitting[done:]] if fitting[done:] else []
            self.groups_left = len(groups)
            fetched_files.write_hash_cache(self._home, self._hashes)
            crash_point("fetch.copied")
            copied += len(offered)
            yield offered
            fetched_files.remove_unneeded_copies(self._home)
        if self._failure is not None and not copied:
            raise self._failure

    @property
    def postponed(self) -> list[str]:
        """The addresses of the objects that could not be copied."""
        return [self._store.address(one.key) for one in self._failed]

    def pending(self, seconds: int) -> list[dict[str, Any]]:
        """Return the objects that could not be copied or have been pending for more than `seconds`, oldest first."""
        late = utc_now() - dt.timedelta(seconds=seconds)
        reported = [*self._failed, *(one for one in self._pending if one.since < late)]
        return [
            {"path": self._store.address(one.key), "reason": one.reason, "since": one.since.isoformat()}
            for one in sorted(reported, key=lambda one: one.since)
        ]

    def _is_known(self, stored: StoredObject) -> bool:
        """Whether an object was judged before."""
        address, sha256 = self._store.address(stored.key), self._cached(stored)
        before = self._known(address, sha256) if sha256 not in ("", _DONE) else None
        if before not in (None, address):
            self.repeated.append({"path": address, "read_as": str(before)})
        return before is not None

    def _choose(self, folder: str, objects: list[StoredObject], format: str | None) -> None:
        """Find the ready and pending objects of a folder; update the cache for removed objects and done manifests."""
        ingested = {one.key for one in objects if self._is_known(one)}
        existing = {one.key: one for one in objects}
        manifests = self._manifests(folder, [one for one in objects if self._cached(one) != _DONE])
        if any(self._cached(one) not in ("", _DONE) and one.key not in ingested for one in objects):
            # An object was copied before but is not in the log, as after the restore of a backup. Then files of done
            # manifests may be missing in the log as well.
            done = self._manifests(folder, [one for one in objects if self._cached(one) == _DONE])
            manifests += [one for one in done if not find_missing(one, existing)]
        self.skipped = len(ingested)
        self.ready, pending = choose_ready(folder, objects, manifests, ingested, format)
        self._pending += pending
        try:
            uploads = self._store.unfinished_uploads(folder)
        except RetryableError:
            raise
        except PstError:  # listing them is not permitted
            uploads = []
        self._pending += [PendingObject(key, "its upload is not completed", since) for key, since in uploads]
        here, root = self._store.address(folder), self._store.address("")
        gone = [name for name in self._hashes if name.startswith(here) and name.removeprefix(root) not in existing]
        for name in gone:
            del self._hashes[name]
        ready = {one.key for one in self.ready}
        done = [one for one in manifests if not find_missing(one, existing) and not ready & one.files.keys()]
        for manifest in done:
            self._cache(manifest.stored, _DONE)
        if gone or done:
            fetched_files.write_hash_cache(self._home, self._hashes)

    def _cached(self, stored: StoredObject) -> str:
        """Return the cached hash of an object; "" if there is none or the object has changed."""
        etag, size, sha256 = self._hashes.get(self._store.address(stored.key), ("", 0, ""))
        return sha256 if (etag, size) == (stored.etag, stored.bytes) else ""

    def _cache(self, stored: StoredObject, sha256: str) -> None:
        self._hashes[self._store.address(stored.key)] = (stored.etag, stored.bytes, sha256)

    def _manifests(self, folder: str, objects: list[StoredObject]) -> list[Manifest]:
        """Read the manifests among the objects; of too many, some, and the others are pending."""
        chosen, rest = _draw_manifests([one for one in objects if is_manifest(folder, one.key)])
        self._pending += [PendingObject(one.key, "too many manifests to read in one run", one.modified) for one in rest]

        def read(stored: StoredObject) -> Manifest:
            if stored.bytes > MAX_MANIFEST_BYTES:
                return Manifest(stored, {}, f"not a manifest: larger than {MAX_MANIFEST_BYTES} bytes")
            try:
                return parse_manifest(stored, folder, self._store.read_start(stored, MAX_MANIFEST_BYTES + 1))
            except PstError as error:
                return Manifest(stored, {}, error.args[0])

        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(read, chosen))

    def _select_fitting(self, group: list[StoredObject]) -> list[StoredObject]:
        """Return the objects that can be copied: whose keys are names, and for which the disk has room; in order."""
        folder = local_path(self._home.path)
        left = shutil.disk_usage(folder).free // DISK_FACTOR if folder is not None else names.MAX_INT64
        fitting = []
        for one in group:
            address = self._store.address(one.key)
            if fault := find_key_fault(one.key):
                self._postpone(one, InputFileError(address, fault, "rename it"))
            elif one.bytes > self._max_bytes:
                reason = f"has {one.bytes:,} bytes, more than the setting max_fetch_bytes: {self._max_bytes:,}"
                self._postpone(one, InputFileError(address, reason, "split it, or raise the setting"))
            elif one.bytes > left:
                self._postpone(one, PassingError(address, errno.ENOSPC))
            else:
                fitting.append(one)
                left -= one.bytes
        return fitting

    def _offer(self, settings: Settings, objects: list[StoredObject]) -> list[OfferedFile]:
        """Return the objects that tasks could copy, in order, with their hashes."""
        if not objects:
            return []
        engine = get_engine(settings, self._home)
        count = min(len(objects), engine.parallelism)
        tasks = [_CopyTask(tuple(objects[number::count]), max(THREADS // count, 1)) for number in range(count)]
        hashes = dict[str, str | PstError]()
        for of_task in engine.run_tasks(tasks, partial(_copy_objects, self._home.path, self._address)):
            hashes |= of_task
        offered = []
        for one in objects:
            sha256 = hashes[one.key]
            if isinstance(sha256, PstError):
                self._postpone(one, sha256)
            else:
                self._cache(one, sha256)
                offered.append(OfferedFile(self._store.address(one.key), sha256, one.bytes))
        return offered

    def _postpone(self, stored: StoredObject, error: PstError) -> None:
        """Leave an object for the next ingest, or raise the error if the source is not tolerant."""
        if not self._tolerant:
            raise error
        if isinstance(error, RetryableError):
            self._failure = error
        self._failed.append(PendingObject(stored.key, error.args[0], stored.modified))


@dataclass(frozen=True)
class _CopyTask:
    """Objects to copy to a node, so many at the same time."""

    objects: tuple[StoredObject, ...]
    threads: int

    @property
    def weight(self) -> float:
        return sum(one.bytes for one in self.objects) / MIN_PART_BYTES


def _copy_objects(home: str, address: str, task: _CopyTask) -> dict[str, str | PstError]:
    """Copy objects at an address to this node; return the SHA-256 of each, or why it cannot be copied now, by key."""
    store, target = storage_of(address).objects(address), Home(home)
    failures = 0

    def copy(stored: StoredObject) -> str | PstError:
        nonlocal failures
        if failures >= MAX_FAILURES:
            return RetryableError(f"{store.address(stored.key)}: not requested: other requests have failed")
        try:
            sha256 = fetched_files.copy_object(target, store, stored)
        except PstError as error:
            failures += isinstance(error, RetryableError) and not isinstance(error, ObjectChanged)
            return error
        except OSError as error:
            if number := passing_number(error):
                return PassingError(store.address(stored.key), number)
            raise
        failures = 0
        return sha256

    with ThreadPoolExecutor(task.threads) as pool:
        try:
            return dict(zip((one.key for one in task.objects), pool.map(copy, task.objects)))
        finally:
            pool.shutdown(cancel_futures=True)


def _draw_manifests(manifests: list[StoredObject]) -> tuple[list[StoredObject], list[StoredObject]]:
    """Return manifests to read, and the others; all are read if they are not too many.

    They are chosen at random, so that manifests that stay pending do not delay the others forever.
    """
    chosen: list[StoredObject] = []
    rest: list[StoredObject] = []
    size = 0
    for one in random.sample(manifests, len(manifests)):
        size += min(one.bytes, MAX_MANIFEST_BYTES)
        (chosen if len(chosen) < MAX_MANIFESTS and size <= MAX_MANIFESTS_BYTES else rest).append(one)
    return sorted(chosen, key=lambda one: one.key), rest


def split_into_groups(
    files: Iterable[Sized], max_bytes: int, weight: Callable[[Sized], int] = lambda one: one.bytes
) -> list[list[Sized]]:
    """Split files, in order, into groups of at most GROUP_FILES, and of `max_bytes` by the weight of a file: its bytes
    by default. A larger file is its own group.
    """
    groups: list[list[Sized]] = []
    size = 0
    for one in files:
        if not groups or size + weight(one) > max_bytes or len(groups[-1]) == GROUP_FILES:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += weight(one)
    return groups


def parts_in_time(sizes: Sequence[int]) -> Iterator[slice]:
    """Yield the files of a group in parts, each as large as those before it together, until GROUP_SECONDS have passed.

    sizes: bytes of the files, as expected. The first part has FIRST_FILES at most, but one at least. Files that are in
    no part by then are left for a next group.
    """
    began, ends = monotonic(), list(accumulate(1 + size // FIRST_BYTES for size in sizes))
    done, most = 0, FIRST_FILES
    while done < len(sizes) and (not done or monotonic() - began < GROUP_SECONDS):
        end = max(bisect_right(ends, most), done + 1)
        yield slice(done, end)
        done, most = end, 2 * ends[end - 1]
