"""The storage for local paths: small files, Arrow and Delta locations of a folder."""

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from pyarrow.fs import FileSystem, LocalFileSystem

from pststream.base.atomic_files import create_atomically, flush_file, flush_folders, make_folder, write_atomically
from pststream.base.errors import UsageError
from pststream.base.names import DELTA_LOG
from pststream.storage.contract import ConditionalFiles, DeltaLocation, Files, ObjectStore

_SYSTEM = LocalFileSystem()


class FolderFiles:
    """Small files below a folder, renamed into place; see `contract.Files`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._root = Path(folder)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return (self._root / name).read_bytes()

    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Create or replace a file."""
        path = self._root / name
        make_folder(path.parent)
        write_atomically(path, content, durable=durable)

    def create(self, name: str, content: bytes) -> bool:
        """Create a file unless it exists."""
        path = self._root / name
        make_folder(path.parent)
        return create_atomically(path, content)

    def upload(self, name: str, path: Path) -> None:
        """Move a local file here."""
        target = self._root / name
        make_folder(target.parent)
        flush_file(path)
        os.replace(path, target)
        flush_folders([target.parent])

    def download(self, name: str, path: Path) -> None:
        """Copy a file to a local path."""
        shutil.copyfile(self._root / name, path)

    def exists(self, name: str) -> bool:
        """Whether the file exists."""
        return (self._root / name).is_file()

    def names(self, folder: str = "") -> list[str]:
        """Return the names of all files below a folder, sorted."""
        paths = (path for path in (self._root / folder).rglob("*") if path.is_file())
        return sorted(path.relative_to(self._root).as_posix() for path in paths)

    def tables(self, folder: str) -> set[str]:
        """Return the names of the Delta tables in a folder: a killed process may leave a table without a commit."""
        try:
            paths = list((self._root / folder).iterdir())
        except FileNotFoundError:
            return set()
        return {path.name for path in paths if _has_commit(path / DELTA_LOG)}

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, and folders that become empty."""
        for name in names:
            path = self._root / name
            path.unlink(missing_ok=True)
            with suppress(OSError):
                for folder in path.relative_to(self._root).parents[:-1]:
                    (self._root / folder).rmdir()


def _has_commit(log: Path) -> bool:
    try:
        with os.scandir(log) as entries:
            return any(entry.name[:1].isdigit() for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return False


class LocalFolder:
    """Local folders as a storage; see `contract.Storage`."""

    is_remote = False
    has_leases = False
    table_properties: Mapping[str, str] = {}
    heartbeat_seconds = 1.0
    turn_seconds = 0.1
    task_error_marks: tuple[str, ...] = ()

    def normalize(self, address: str | os.PathLike[str]) -> str:
        """Return the absolute path."""
        return str(Path(address).absolute())

    def local_path(self, address: str) -> Path | None:
        """Return the folder itself."""
        return Path(address)

    def prepare_home(self, address: str, group: str = "") -> None:
        """Create the folder, which nobody else may open; one that exists keeps its rights."""
        path = Path(address)
        if path.is_dir():
            return
        make_folder(path, 0o700)
        if group:
            try:
                shutil.chown(path, group=group)
            except (LookupError, PermissionError) as error:
                path.rmdir()
                raise UsageError(f"home_group {group!r}: {error}", "name a group of this user") from None
            path.chmod(0o2750)  # what is created in it gets the group

    def keeps_versions(self, address: str) -> bool | None:
        """A folder keeps none."""
        return False

    def files(self, address: str) -> Files:
        """Return the small files below a folder."""
        return FolderFiles(address)

    def conditional_files(self, address: str) -> ConditionalFiles:
        """Not supported: a folder has file locks instead."""
        raise NotImplementedError

    def objects(self, address: str) -> ObjectStore:
        """Not supported: an ingest reads the files of a folder where they are."""
        raise NotImplementedError

    def file_system(self, address: str) -> tuple[FileSystem, str]:
        """Return Arrow's local file system."""
        return _SYSTEM, address

    def new_file(self, address: str) -> tuple[FileSystem, str]:
        """Create the folder of a file that is about to be written."""
        make_folder(Path(address).parent)
        return _SYSTEM, address

    def delta_location(self, address: str) -> DeltaLocation:
        """Return the path, which needs no options."""
        return DeltaLocation(address)

    def spark_uri(self, address: str) -> str:
        """Return the path."""
        return address
