"""Find the storage of an address by its prefix (else local folders), and bring addresses into one spelling."""

import os
import re
from functools import cache
from importlib import import_module
from pathlib import Path

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.optional_packages import needs_extra
from pststream.storage.contract import Files, Storage
from pststream.storage.local_folder import LocalFolder

_FOLDER = LocalFolder()
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


Address = str | os.PathLike[str]
"""A local path, or the address of a storage."""


def storage_of(address: str) -> Storage:
    """Return the storage that names.STORAGES lists for the prefix of an address, or else local folders."""
    prefix = names.storage_prefix(address)
    return _load(names.STORAGES[prefix]) if prefix else _FOLDER


@cache
def _load(module: str) -> Storage:
    """Import the module of a storage on first use: clients of object stores are slow to import."""
    with needs_extra("aws"):
        storage: Storage = import_module(module).STORAGE
    return storage


def normalize(address: Address) -> str:
    """Return the one spelling of an address: prefix and path without a slash at the end, or an absolute local path.

    Raises UsageError for an address of no known storage, and for an address that its storage does not allow.
    """
    text = os.fspath(address)
    if not names.storage_prefix(text) and _SCHEME.match(text):
        known = ", ".join(names.STORAGES)
        raise UsageError(f"{text}: no storage has such addresses", f"give a folder, or an address of: {known}")
    return storage_of(text).normalize(text)


def files_at(address: str) -> Files:
    """Return the small files below an address."""
    return storage_of(address).files(address)


def file_at(address: Address) -> tuple[Files, str]:
    """Return the files of the folder of a file, and the name of the file there."""
    folder, slash, name = os.fspath(address).rstrip("/").rpartition("/")
    return files_at(normalize(folder or slash or ".")), name


def local_path(address: str) -> Path | None:
    """Return the path at which any local program can open an address; None if it has no local path."""
    return storage_of(address).local_path(address)
