"""Objects of a bucket, by boto3: listed, read, copied. Endpoint, region and credentials: by the standard chain alone.

What can be tried again (no answer, HTTP 5xx, a body that was cut) botocore tries some times, and a body is asked for
some times more, since botocore does not; then it is a RetryableError.
"""

import datetime as dt
import hashlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import IO, Any

from botocore.exceptions import BotoCoreError

from pststream import names
from pststream.errors import UsageError
from pststream.storage import aws
from pststream.storage.aws import Changed

BODY_TRIES = 3
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Stored:
    """An object as it was listed; the ETag stands without its quotes."""

    key: str
    etag: str
    bytes: int
    modified: dt.datetime


class Bucket:
    """A bucket, and the prefix of it that an address names."""

    def __init__(self, address: str) -> None:
        parts = address.removeprefix(names.BUCKETS).split("/", 1)
        if not parts[0]:
            raise UsageError(f"{address} names no bucket", "give s3://bucket/prefix")
        self.name = parts[0]
        self.prefix = parts[1] if len(parts) > 1 else ""
        self._client = aws.client(address)

    def address(self, key: str) -> str:
        """The address of an object."""
        return f"{names.BUCKETS}{self.name}/{key}"

    def below(self, prefix: str) -> list[Stored]:
        """All objects whose keys begin with `prefix`, sorted by key."""
        return sorted(map(_stored, self._pages("list_objects_v2", "Contents", prefix)), key=lambda one: one.key)

    def only(self, key: str) -> Stored | None:
        """The object of this key; None if there is none."""
        with self._told(key):
            found = self._client.list_objects_v2(Bucket=self.name, Prefix=key, MaxKeys=1).get("Contents", [])
        return _stored(found[0]) if found and found[0]["Key"] == key else None

    def uploads(self, prefix: str) -> list[tuple[str, dt.datetime]]:
        """Key and beginning of the multipart uploads below `prefix` that were neither completed nor aborted."""
        found = self._pages("list_multipart_uploads", "Uploads", prefix)
        return [(upload["Key"], upload["Initiated"]) for upload in found]

    def read(self, stored: Stored, most: int) -> bytes:
        """The first `most` bytes of an object; raises as `copy`."""
        with self._told(stored.key), self._body(stored) as body:
            content: bytes = body.read(most)
        return content

    def copy(self, stored: Stored, file: IO[bytes]) -> str:
        """Write an object's content into an empty file; returns its hexadecimal SHA-256.

        Raises Changed if it is not as listed, RetryableError if it could not be read now, UsageError if it never can.
        """
        for attempt in range(1, BODY_TRIES + 1):
            file.seek(0)
            file.truncate()
            with self._told(stored.key), self._body(stored) as body:
                try:
                    return self._copied(body, stored, file)
                except BotoCoreError:
                    if attempt == BODY_TRIES:
                        raise
            time.sleep(attempt / 2)
        raise AssertionError("unreachable")

    def _copied(self, body: Any, stored: Stored, file: IO[bytes]) -> str:
        digest, size = hashlib.sha256(), 0
        while block := body.read(_BLOCK):
            digest.update(block)
            file.write(block)
            size += len(block)
        if size != stored.bytes:
            raise Changed(f"{self.address(stored.key)}: {size} bytes came, {stored.bytes} were listed")
        return digest.hexdigest()

    @contextmanager
    def _body(self, stored: Stored) -> Iterator[Any]:
        found = self._client.get_object(Bucket=self.name, Key=stored.key, IfMatch=f'"{stored.etag}"')
        # Entered by itself it would hand out urllib3's stream, which does not mind being cut.
        with closing(found["Body"]) as body:
            if found["ETag"].strip('"') != stored.etag:
                raise Changed(f"{self.address(stored.key)}: has changed since it was listed")
            yield body

    def _pages(self, operation: str, items: str, prefix: str) -> Iterator[dict[str, Any]]:
        with self._told(prefix):
            for page in self._client.get_paginator(operation).paginate(Bucket=self.name, Prefix=prefix):
                yield from page.get(items, [])

    def _told(self, key: str) -> AbstractContextManager[None]:
        return aws.told(self.address(key), self._client)


def _stored(listed: dict[str, Any]) -> Stored:
    return Stored(listed["Key"], listed["ETag"].strip('"'), listed["Size"], listed["LastModified"])
