"""The small files of a home, whole or not there, in a folder or below a prefix of a bucket.

Names are relative, parts divided by `/`. Errors of a bucket are those of `storage.aws`; a file that is not there is
FileNotFoundError in both.
"""

import datetime as dt
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol

from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError

from pststream.storage import aws
from pststream.storage.addresses import in_bucket, split

BODY_TRIES = 3

MOST_DELETED = 1000
"""Keys that S3 deletes in one request."""


class Files(Protocol):
    """What both kinds can do."""

    def read(self, name: str) -> bytes:
        """The content of a file; raises FileNotFoundError."""

    def write(self, name: str, content: bytes) -> None:
        """Make or replace a file, whole or not at all."""

    def upload(self, name: str, path: Path) -> None:
        """Make a file of a local one on the same disk, which goes."""

    def download(self, name: str, path: Path) -> None:
        """Copy a file to a local path; raises FileNotFoundError."""

    def exists(self, name: str) -> bool:
        """Whether it is there."""

    def names(self, folder: str = "") -> list[str]:
        """Names of all files below a folder, sorted."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; one that is not there is none too many."""


def files_at(address: str) -> Files:
    """The files below an address (storage/addresses.py)."""
    return BucketFiles(address) if in_bucket(address) else _FolderFiles(address)


class _FolderFiles:
    """Files of a folder, renamed into place."""

    def __init__(self, folder: str) -> None:
        self._root = Path(folder)

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        writing = path.with_name(path.name + ".writing")
        writing.write_bytes(content)
        os.replace(writing, path)

    def upload(self, name: str, path: Path) -> None:
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, target)

    def download(self, name: str, path: Path) -> None:
        shutil.copyfile(self._root / name, path)

    def exists(self, name: str) -> bool:
        return (self._root / name).is_file()

    def names(self, folder: str = "") -> list[str]:
        found = (path for path in (self._root / folder).rglob("*") if path.is_file())
        return sorted(path.relative_to(self._root).as_posix() for path in found)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            path = self._root / name
            path.unlink(missing_ok=True)
            with suppress(OSError):
                path.parent.rmdir()


@dataclass(frozen=True)
class Version:
    """A file of a bucket as it was read; `age`: seconds since it was written, both times told by the store."""

    content: bytes
    etag: str
    age: float


class BucketFiles:
    """Files below a prefix of a bucket."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._bucket, prefix = split(address)
        self._prefix = f"{prefix}/" if prefix else ""
        self._client = aws.client(address)

    def read(self, name: str) -> bytes:
        """Content of a file; raises FileNotFoundError."""
        version = self.version(name)
        if version is None:
            raise FileNotFoundError(f"{self._address}/{name}")
        return version.content

    def version(self, name: str) -> Version | None:
        """A file with its ETag and age; None if it is not there."""
        with self._told(name):
            for left in reversed(range(BODY_TRIES)):
                try:
                    answer = self._client.get_object(**self._place(name))
                    content: bytes = answer["Body"].read()
                    return Version(content, answer["ETag"], _age(answer))
                except ClientError as error:
                    if aws.is_absent(error):
                        return None
                    raise
                except BotoCoreError:  # botocore does not ask again for a body that breaks off
                    if not left:
                        raise
        raise AssertionError("unreachable")

    def write(self, name: str, content: bytes) -> None:
        """Make or replace a file."""
        with self._told(name):
            self._client.put_object(**self._place(name), Body=content)

    def write_if(self, name: str, content: bytes, etag: str | None) -> str | None:
        """Replace the file that has this ETag, or make one where None is; its ETag, or None if that is not so."""
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        with self._told(name):
            try:
                return str(self._client.put_object(**self._place(name), Body=content, **condition)["ETag"])
            except ClientError as error:
                if aws.status_of(error) in (409, 412) or aws.is_absent(error):
                    return None
                raise

    def upload(self, name: str, path: Path) -> None:
        """Make a file of a local one."""
        with self._told(name):
            try:
                self._client.upload_file(os.fspath(path), self._bucket, self._prefix + name)
            except S3UploadFailedError as error:  # boto3's own word for what S3 answered
                raise error.__context__ if isinstance(error.__context__, ClientError) else error from None

    def download(self, name: str, path: Path) -> None:
        """Copy a file to a local path; raises FileNotFoundError."""
        with self._told(name):
            try:
                self._client.download_file(self._bucket, self._prefix + name, os.fspath(path))
            except ClientError as error:
                if aws.is_absent(error):
                    raise FileNotFoundError(f"{self._address}/{name}") from None
                raise

    def exists(self, name: str) -> bool:
        """Whether it is there."""
        with self._told(name):
            try:
                self._client.head_object(**self._place(name))
            except ClientError as error:
                if aws.is_absent(error):
                    return False
                raise
        return True

    def names(self, folder: str = "") -> list[str]:
        """Names of all files below a folder, sorted."""
        return sorted(self._keys(f"{folder}/" if folder else ""))

    def folders(self, folder: str) -> set[str]:
        """Names of the folders in a folder."""
        root = f"{self._prefix}{folder}/"
        with self._told(folder):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=root, Delimiter="/"
            )
            found = [one["Prefix"] for page in pages for one in page.get("CommonPrefixes", [])]
        return {prefix.removeprefix(root).rstrip("/") for prefix in found}

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, many at a time."""
        left = list(names)
        while left:
            some, left = left[:MOST_DELETED], left[MOST_DELETED:]
            keys = [{"Key": self._prefix + name} for name in some]
            with self._told(some[0]):
                self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": keys, "Quiet": True})

    def _keys(self, below: str) -> Iterator[str]:
        with self._told(below):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + below):
                yield from (one["Key"].removeprefix(self._prefix) for one in page.get("Contents", []))

    def _place(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + name}

    def _told(self, name: str) -> AbstractContextManager[None]:
        return aws.told(f"{self._address}/{name}", self._client)


def _age(answer: dict[str, Any]) -> float:
    """By one clock, the store's: Date less Last-Modified. Without a Date: 0."""
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    if date is None:
        return 0.0
    written: dt.datetime = answer["LastModified"]
    return (parsedate_to_datetime(date) - written).total_seconds()
