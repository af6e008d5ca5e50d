"""Storage of tests: `test:///folder`, a local folder that programs cannot open, with counted accesses."""

import datetime as dt
import hashlib
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import IO

from pyarrow.fs import FileSystem, LocalFileSystem

from pststream.base.errors import UsageError
from pststream.storage.contract import DeltaLocation, FileVersion, ObjectChanged, StoredObject
from pststream.storage.local_folder import FolderFiles

PREFIX = "test://"
COUNTS: Counter[str] = Counter()
_WRITING = threading.Lock()


class CountedFiles(FolderFiles):
    """Files of a folder with conditional writes, as leases need them; all writers are in this process."""

    def __init__(self, address: str) -> None:
        super().__init__(folder_of(address))

    def read(self, name: str) -> bytes:
        COUNTS["read"] += 1
        return super().read(name)

    def version(self, name: str) -> FileVersion | None:
        COUNTS["version"] += 1
        try:
            content = super().read(name)
        except FileNotFoundError:
            return None
        return FileVersion(content, etag_of(content), time.time() - (self._root / name).stat().st_mtime)

    def write_if(self, name: str, content: bytes, etag: str | None) -> str | None:
        COUNTS["write_if"] += 1
        with _WRITING:
            found = self.version(name)
            if (found.etag if found else None) != etag:
                return None
            self.write(name, content)
            return etag_of(content)


class CountedObjects:
    """Files of a folder as objects to ingest; their keys are paths."""

    def __init__(self, address: str) -> None:
        self.prefix = folder_of(address)

    def address(self, key: str) -> str:
        return PREFIX + key

    def list_objects(self, prefix: str, after: str = "") -> list[StoredObject]:
        COUNTS["list"] += 1
        paths = [path for path in Path(prefix).rglob("*") if path.is_file() and str(path) > after]
        return sorted(map(stored, paths), key=lambda one: one.key)

    def find_object(self, key: str) -> StoredObject | None:
        return stored(Path(key)) if Path(key).is_file() else None

    def unfinished_uploads(self, prefix: str) -> list[tuple[str, dt.datetime]]:
        return []

    def read_start(self, stored: StoredObject, length: int) -> bytes:
        return Path(stored.key).read_bytes()[:length]

    def copy_object(self, stored: StoredObject, file: IO[bytes]) -> str:
        COUNTS["copy"] += 1
        content = Path(stored.key).read_bytes()
        if etag_of(content) != stored.etag:
            raise ObjectChanged(f"{stored.key} has changed")
        file.write(content)
        return hashlib.sha256(content).hexdigest()


class CountingStorage:
    """Local folders that behave like an object store."""

    is_remote = True
    has_leases = True
    table_properties = {"delta.checkpointInterval": "7"}
    heartbeat_seconds = 0.5
    turn_seconds = 0.2
    task_error_marks: tuple[str, ...] = ()

    def normalize(self, address: str | os.PathLike[str]) -> str:
        text = os.fspath(address).rstrip("/")
        if not folder_of(text).startswith("/"):
            raise UsageError(f"{text}: not an absolute path", "give test:///folder")
        return text

    def local_path(self, address: str) -> Path | None:
        return None

    def prepare_home(self, address: str, group: str = "") -> None:
        assert folder_of(address).startswith("/")

    def keeps_versions(self, address: str) -> bool | None:
        return None

    def files(self, address: str) -> CountedFiles:
        return CountedFiles(address)

    def conditional_files(self, address: str) -> CountedFiles:
        return CountedFiles(address)

    def objects(self, address: str) -> CountedObjects:
        return CountedObjects(address)

    def file_system(self, address: str) -> tuple[FileSystem, str]:
        COUNTS["file_system"] += 1
        return LocalFileSystem(), folder_of(address)

    def new_file(self, address: str) -> tuple[FileSystem, str]:
        Path(folder_of(address)).parent.mkdir(parents=True, exist_ok=True)
        return self.file_system(address)

    def delta_location(self, address: str) -> DeltaLocation:
        COUNTS["delta"] += 1
        return DeltaLocation(folder_of(address))

    def spark_uri(self, address: str) -> str:
        return folder_of(address)


STORAGE = CountingStorage()


def folder_of(address: str) -> str:
    return address.removeprefix(PREFIX)


def etag_of(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def stored(path: Path) -> StoredObject:
    content = path.read_bytes()
    return StoredObject(
        str(path), etag_of(content), len(content), dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
    )
