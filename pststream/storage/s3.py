"""The storage for s3:// addresses: small files, objects to ingest, Arrow and Delta locations of a bucket prefix.

botocore retries requests that get no answer or HTTP 5xx. It does not retry a body that breaks off, so bodies are
retried here. What fails after that is a RetryableError.
"""

import datetime as dt
import hashlib
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError
from pyarrow.fs import AwsStandardS3RetryStrategy, FileSystem, S3FileSystem

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.texts import mask_url
from pststream.storage import aws
from pststream.storage.contract import (
    ConditionalFiles,
    DeltaLocation,
    Files,
    FileVersion,
    ObjectChanged,
    ObjectStore,
    StoredObject,
)

PREFIX = "s3://"

BODY_TRIES = 3
"""Number of times that a body is requested."""

BLOCK_BYTES = 1 << 20
"""Bytes that are copied at a time."""

DELETED_KEYS = 1000
"""Largest number of keys that S3 deletes in one request."""


_ANSWERED: set[str] = set()
"""Buckets that have answered this process: its credentials were right."""


class S3Bucket:
    """Objects below a prefix; see `contract.ConditionalFiles` and `contract.ObjectStore`.

    As files, objects have names relative to the prefix. As objects to ingest, they have their keys in the bucket.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self.bucket, _, self.prefix = address.removeprefix(PREFIX).partition("/")
        if not self.bucket:
            raise UsageError(f"{address} names no bucket", "give s3://bucket/prefix")
        self._root = f"{self.prefix}/" if self.prefix else ""
        _, self._client = aws.open_session(address)

    # Files

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises FileNotFoundError."""
        version = self.version(name)
        if version is None:
            raise FileNotFoundError(f"{self._address}/{name}")
        return version.content

    def version(self, name: str) -> FileVersion | None:
        """Return a file with its ETag and age; None if it does not exist."""
        with self._translating(self._root + name):
            for tries_left in reversed(range(BODY_TRIES)):
                try:
                    answer = self._client.get_object(Bucket=self.bucket, Key=self._root + name)
                    content: bytes = answer["Body"].read()
                    return FileVersion(content, answer["ETag"], _age(answer))
                except ClientError as error:
                    if aws.is_absent(error):
                        return None
                    raise
                except BotoCoreError:
                    if not tries_left:
                        raise
        raise AssertionError("unreachable")

    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Create or replace a file; a bucket stores every object durably."""
        with self._translating(self._root + name):
            self._client.put_object(Bucket=self.bucket, Key=self._root + name, Body=content)

    def write_if(self, name: str, content: bytes, etag: str | None) -> str | None:
        """Replace the file if it has this ETag, or create it if None is given; None if the condition does not hold."""
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        key = self._root + name
        with self._translating(key):
            try:
                answer = self._client.put_object(Bucket=self.bucket, Key=key, Body=content, **condition)
            except ClientError as error:
                if aws.status_of(error) in (409, 412) or aws.is_absent(error):
                    return None
                raise
            except BotoCoreError:  # a server may close the connection instead of an answer: see what is there
                stored = self.version(name)
                if stored is None or stored.etag == etag:
                    raise
                return stored.etag if stored.content == content else None
        return str(answer["ETag"])

    def create(self, name: str, content: bytes) -> bool:
        """Create a file unless it exists."""
        return self.write_if(name, content, None) is not None

    def upload(self, name: str, path: Path) -> None:
        """Create or replace a file from a local one."""
        with self._translating(self._root + name):
            try:
                self._client.upload_file(os.fspath(path), self.bucket, self._root + name)
            except S3UploadFailedError as error:  # boto3 wraps what S3 answered
                raise error.__context__ if isinstance(error.__context__, ClientError) else error from None

    def download(self, name: str, path: Path) -> None:
        """Copy a file to a local path. Raises FileNotFoundError."""
        with self._translating(self._root + name):
            try:
                self._client.download_file(self.bucket, self._root + name, os.fspath(path))
            except ClientError as error:
                if aws.is_absent(error):
                    raise FileNotFoundError(f"{self._address}/{name}") from None
                raise

    def exists(self, name: str) -> bool:
        """Whether the file exists."""
        with self._translating(self._root + name):
            try:
                self._client.head_object(Bucket=self.bucket, Key=self._root + name)
            except ClientError as error:
                if aws.is_absent(error):
                    return False
                raise
        return True

    def names(self, folder: str = "") -> list[str]:
        """Return the names of all files below a folder, sorted."""
        below = self._root + (f"{folder}/" if folder else "")
        return sorted(listed["Key"].removeprefix(self._root) for listed in self._list("Contents", below))

    def tables(self, folder: str) -> set[str]:
        """Return the names of the folders in a folder: each has an object, and a table's first object is in its log."""
        below = f"{self._root}{folder}/"
        folders = self._list("CommonPrefixes", below, Delimiter="/")
        return {one["Prefix"].removeprefix(below).rstrip("/") for one in folders}

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, many in one request."""
        left = [self._root + name for name in names]
        while left:
            keys, left = left[:DELETED_KEYS], left[DELETED_KEYS:]
            with self._translating(keys[0]):
                objects = [{"Key": key} for key in keys]
                answer = self._client.delete_objects(Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True})
                for fault in answer.get("Errors", []):
                    raise aws.error_of(fault, "DeleteObjects")

    def check_conditions(self) -> None:
        """Raise UsageError if the store ignores the conditions of writes."""
        name = f".probe-{uuid.uuid4().hex}"
        try:
            honours = (
                self.write_if(name, b"1", None) is not None
                and self.write_if(name, b"2", None) is None
                and self.write_if(name, b"3", '"0"') is None
                and self.read(name) == b"1"
            )
        finally:
            self.delete([name])
        if not honours:
            hint = "use a store that honours If-None-Match and If-Match of PutObject"
            raise UsageError(f"{self._address}: the store ignores the conditions of writes", hint)

    def keeps_versions(self) -> bool | None:
        """Whether the bucket keeps older versions of objects; None if the store does not say."""
        try:
            with self._translating(self.prefix):
                return "Status" in self._client.get_bucket_versioning(Bucket=self.bucket)
        except UsageError:
            return None

    # Objects to ingest

    def address(self, key: str) -> str:
        """Return the address of an object."""
        return f"{PREFIX}{self.bucket}/{key}"

    def list_objects(self, prefix: str, after: str = "") -> list[StoredObject]:
        """Return all objects whose keys begin with `prefix` and come after the key `after`, sorted by key."""
        start = {"StartAfter": after} if after else {}
        return sorted(map(_stored_object, self._list("Contents", prefix, **start)), key=lambda one: one.key)

    def find_object(self, key: str) -> StoredObject | None:
        """Return the object with this key; None if it does not exist."""
        with self._translating(key):
            listed = self._client.list_objects_v2(Bucket=self.bucket, Prefix=key, MaxKeys=1).get("Contents", [])
        return _stored_object(listed[0]) if listed and listed[0]["Key"] == key else None

    def unfinished_uploads(self, prefix: str) -> list[tuple[str, dt.datetime]]:
        """Return key and start of the multipart uploads below `prefix` that were neither completed nor aborted."""
        uploads = self._pages("list_multipart_uploads", "Uploads", prefix)
        return [(upload["Key"], upload["Initiated"]) for upload in uploads]

    def read_start(self, stored: StoredObject, length: int) -> bytes:
        """Return the first `length` bytes of an object; raises as `copy_object`."""
        with self._reading(stored) as body:
            content: bytes = body.read(length)
        return content

    def copy_object(self, stored: StoredObject, file: IO[bytes]) -> str:
        """Write the content of an object to an empty file and return its hexadecimal SHA-256."""
        for attempt in range(1, BODY_TRIES + 1):
            file.seek(0)
            file.truncate()
            with self._reading(stored) as body:
                try:
                    return self._copy_body(body, stored, file)
                except BotoCoreError:
                    if attempt == BODY_TRIES:
                        raise
            time.sleep(attempt / 2)
        raise AssertionError("unreachable")

    def _copy_body(self, body: Any, stored: StoredObject, file: IO[bytes]) -> str:
        digest, size = hashlib.sha256(), 0
        while block := body.read(BLOCK_BYTES):
            digest.update(block)
            file.write(block)
            size += len(block)
        if size != stored.bytes:
            raise ObjectChanged(f"{self.address(stored.key)}: received {size} bytes, expected {stored.bytes}")
        return digest.hexdigest()

    @contextmanager
    def _reading(self, stored: StoredObject) -> Iterator[Any]:
        """Yield the body of an object; a refusal is the fault of this object, as its owner may forbid to read it."""
        with aws.translate_errors(self.address(stored.key), self._client):
            response = self._client.get_object(Bucket=self.bucket, Key=stored.key, IfMatch=f'"{stored.etag}"')
            # As a context manager the body would yield urllib3's stream, which does not notice that it was cut.
            with closing(response["Body"]) as body:
                if response["ETag"].strip('"') != stored.etag:
                    raise ObjectChanged(f"{self.address(stored.key)}: has changed since it was listed")
                yield body

    # Requests

    def _list(self, items: str, prefix: str, **options: str) -> Iterator[dict[str, Any]]:
        return self._pages("list_objects_v2", items, prefix, **options)

    def _pages(self, operation: str, items: str, prefix: str, **options: str) -> Iterator[dict[str, Any]]:
        with self._translating(prefix):
            for page in self._client.get_paginator(operation).paginate(Bucket=self.bucket, Prefix=prefix, **options):
                yield from page.get(items, [])

    @contextmanager
    def _translating(self, key: str) -> Iterator[None]:
        with aws.translate_errors(self.address(key), self._client, self.bucket in _ANSWERED):
            yield
        _ANSWERED.add(self.bucket)


def _stored_object(listed: dict[str, Any]) -> StoredObject:
    return StoredObject(listed["Key"], listed["ETag"].strip('"'), listed["Size"], listed["LastModified"])


def _age(answer: dict[str, Any]) -> float:
    """Seconds since the object was written, by the server's clock: Date less Last-Modified; 0 without a Date."""
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    if date is None:
        return 0.0
    written: dt.datetime = answer["LastModified"]
    return max(0.0, (parsedate_to_datetime(date) - written).total_seconds())


ARROW_TRIES = 10
"""Number of times that Arrow tries a request that gets no answer or HTTP 5xx."""


class S3:
    """S3 as a storage; see `contract.Storage`."""

    is_remote = True
    has_leases = True
    # Opening a table costs a request for each commit since the last checkpoint.
    table_properties = {"delta.checkpointInterval": "10"}
    # Each heartbeat is a request that costs money. A change of state is written at once.
    heartbeat_seconds = 10.0
    turn_seconds = 0.5
    task_error_marks = ("AWS Error",)

    def normalize(self, address: str | os.PathLike[str]) -> str:
        """Return `s3://bucket/prefix` without a slash at the end."""
        text = os.fspath(address)
        prefix = next(prefix for prefix in (PREFIX, *names.OTHER_PREFIXES) if text.startswith(prefix))
        bucket, _, prefix = text.removeprefix(prefix).partition("/")
        parts = prefix.rstrip("/").split("/") if prefix.rstrip("/") else []
        if not bucket or any(part in ("", ".", "..") for part in parts):
            raise UsageError(f"{mask_url(str(address))}: is no address in a bucket", "give s3://bucket/prefix")
        return PREFIX + "/".join([bucket, *parts])

    def local_path(self, address: str) -> Path | None:
        """Objects have no local path."""
        return None

    def prepare_home(self, address: str, group: str = "") -> None:
        """Try conditional writes, by which leases and commits exclude each other; rights are those of the bucket."""
        S3Bucket(address).check_conditions()

    def keeps_versions(self, address: str) -> bool | None:
        """Ask the bucket."""
        return S3Bucket(address).keeps_versions()

    def files(self, address: str) -> Files:
        """Return the objects below a prefix as small files."""
        return S3Bucket(address)

    def conditional_files(self, address: str) -> ConditionalFiles:
        """Return the objects below a prefix as small files; S3 can write on condition of an ETag."""
        return S3Bucket(address)

    def objects(self, address: str) -> ObjectStore:
        """Return the objects to ingest below a prefix."""
        return S3Bucket(address)

    def file_system(self, address: str) -> tuple[FileSystem, str]:
        """Return Arrow's client of S3, with the credentials that boto3 resolves."""
        return _arrow_client(aws.resolve_credentials(address)), address.removeprefix(PREFIX)

    def new_file(self, address: str) -> tuple[FileSystem, str]:
        """Return the file system and path of a file: S3 has no folders to create."""
        return self.file_system(address)

    def delta_location(self, address: str) -> DeltaLocation:
        """Return the address, and the credentials that boto3 resolves as options of delta-rs."""
        credentials = aws.resolve_credentials(address)
        options = {
            "AWS_REGION": credentials.region,
            "AWS_ACCESS_KEY_ID": credentials.key,
            "AWS_SECRET_ACCESS_KEY": credentials.secret,
            "AWS_SESSION_TOKEN": credentials.token,
            "AWS_ENDPOINT_URL": credentials.endpoint,
            "AWS_ALLOW_HTTP": "true" if (credentials.endpoint or "").startswith("http://") else None,
        }
        return DeltaLocation(address, {name: value for name, value in options.items() if value is not None})

    def spark_uri(self, address: str) -> str:
        """Return the address with the prefix of Hadoop's client."""
        return "s3a://" + address.removeprefix(PREFIX)


STORAGE = S3()


@lru_cache(maxsize=4)
def _arrow_client(credentials: aws.Credentials) -> S3FileSystem:
    parts = urlsplit(credentials.endpoint or "https://")
    return S3FileSystem(
        access_key=credentials.key,
        secret_key=credentials.secret,
        session_token=credentials.token,
        region=credentials.region,
        scheme=parts.scheme,
        endpoint_override=parts.netloc or None,
        connect_timeout=aws.CONNECT_SECONDS,
        request_timeout=aws.READ_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ARROW_TRIES),
    )
