"""Define the contract of a storage: addresses, small files, objects to ingest, locations for Arrow, Delta and Spark."""

import datetime as dt
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from pyarrow.fs import FileSystem

from pststream.base.errors import RetryableError


class ObjectChanged(RetryableError):
    """An object differs from what was listed, or is gone."""


@dataclass(frozen=True)
class FileVersion:
    """A file as it was read; `age`: seconds since it was written, by the clock of the storage."""

    content: bytes
    etag: str
    age: float


@dataclass(frozen=True)
class StoredObject:
    """An object as it was listed; the ETag has no quotes."""

    key: str
    etag: str
    bytes: int
    modified: dt.datetime


@dataclass(frozen=True)
class DeltaLocation:
    """URI and object-store options with which delta-rs opens a table."""

    uri: str
    options: dict[str, str] | None = field(default=None, repr=False)


class Files(Protocol):
    """Small files below an address; readers never see a part of one. Names are relative, with `/` between folders."""

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises FileNotFoundError."""

    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Create or replace a file; one that is not `durable` may be lost or damaged by a power cut."""

    def create(self, name: str, content: bytes) -> bool:
        """Create a file unless it exists; return whether this call created it."""

    def upload(self, name: str, path: Path) -> None:
        """Create or replace a file from a local one on the same disk; the local one may be moved away."""

    def download(self, name: str, path: Path) -> None:
        """Copy a file to a local path. Raises FileNotFoundError."""

    def exists(self, name: str) -> bool:
        """Whether the file exists."""

    def names(self, folder: str = "") -> list[str]:
        """Return the names of all files below a folder, sorted."""

    def tables(self, folder: str) -> set[str]:
        """Return the names of the Delta tables in a folder."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; skip those that do not exist."""


class ConditionalFiles(Files, Protocol):
    """Files that can be written on a condition, as leases need it."""

    def version(self, name: str) -> FileVersion | None:
        """Return a file with its ETag and age; None if it does not exist."""

    def write_if(self, name: str, content: bytes, etag: str | None) -> str | None:
        """Replace the file if it has this ETag, or create it if None is given and it does not exist.

        Returns the new ETag, or None if the condition does not hold.
        """


class ObjectStore(Protocol):
    """Objects to ingest below an address; `prefix`: the part of their keys that the address names."""

    prefix: str

    def address(self, key: str) -> str:
        """Return the address of an object."""

    def list_objects(self, prefix: str, after: str = "") -> list[StoredObject]:
        """Return all objects whose keys begin with `prefix` and come after the key `after`, sorted by key."""

    def find_object(self, key: str) -> StoredObject | None:
        """Return the object with this key; None if it does not exist."""

    def unfinished_uploads(self, prefix: str) -> list[tuple[str, dt.datetime]]:
        """Return key and start of each upload below `prefix` that was neither completed nor aborted."""

    def read_start(self, stored: StoredObject, length: int) -> bytes:
        """Return the first `length` bytes of an object; raises as `copy_object`."""

    def copy_object(self, stored: StoredObject, file: IO[bytes]) -> str:
        """Write the content of an object to an empty file and return its hexadecimal SHA-256.

        Raises ObjectChanged if the object is not as listed, RetryableError if it cannot be read now, UsageError if it
        cannot be read at all.
        """


class Storage(Protocol):
    """A kind of place for homes and landing folders. Addresses come normalized, except to `normalize`.

    is_remote           accessed over a network: an access that failed may succeed when it is retried
    has_leases          locks are leases in `conditional_files`, which can be lost while they are held, so that each
                        commit carries a fencing token; if false, locks are file locks in `local_path`
    table_properties    Delta properties of each table of a new home
    heartbeat_seconds   how often a watcher rewrites its heartbeat
    turn_seconds        how long a watcher leaves the home to others between two batches
    task_error_marks    texts by which the error of a task is recognized as one of this storage
    """

    is_remote: bool
    has_leases: bool
    table_properties: Mapping[str, str]
    heartbeat_seconds: float
    turn_seconds: float
    task_error_marks: tuple[str, ...]

    def normalize(self, address: str | os.PathLike[str]) -> str:
        """Return the one spelling of an address. Raises UsageError for what is no address."""

    def local_path(self, address: str) -> Path | None:
        """Return the path at which any local program can open it; None if there is none."""

    def prepare_home(self, address: str, group: str = "") -> None:
        """Make the place of a home, for this user and a group to read; try what a home needs of the storage.

        Raises UsageError if the place cannot have a home, or if there is no such group.
        """

    def keeps_versions(self, address: str) -> bool | None:
        """Whether the storage keeps what is deleted or replaced, as older versions; None if it does not say."""

    def files(self, address: str) -> Files:
        """Return the small files below an address."""

    def conditional_files(self, address: str) -> ConditionalFiles:
        """Return the small files below an address, with conditional writes; only called if `has_leases`."""

    def objects(self, address: str) -> ObjectStore:
        """Return the objects to ingest below an address; only called if it has no local path."""

    def file_system(self, address: str) -> tuple[FileSystem, str]:
        """Return the Arrow file system of an address, and the path in it."""

    def new_file(self, address: str) -> tuple[FileSystem, str]:
        """Return file system and path of a file about to be written; create its folder if the storage needs one."""

    def delta_location(self, address: str) -> DeltaLocation:
        """Return the URI and options with which delta-rs opens the table at an address."""

    def spark_uri(self, address: str) -> str:
        """Return the URI by which Spark opens the table at an address."""
